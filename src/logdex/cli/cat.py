"""`logdex cat`: the messages of a store in the order of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.message_output import DecompressOption, MessageJsonOption, MessagePrinter
from logdex.cli.options import FromOption, QueueOption, StoreOptions, ToOption, TopicOption, store_command
from logdex.cli.output import hint, note
from logdex.cli.stores import open_store

if TYPE_CHECKING:
    from logdex.rocketmq.scan import LogEnd


@app.command(
    epilog=epilog(
        "logdex cat store --limit 3",
        "logdex cat store --topic orders --queue 0 --offset 2000 --limit 2 --json",
        "logdex cat store --topic payments --from 2026-03-03T08:00 --to 2026-03-03T09:00",
        notes="The log ends at the first message that is not whole or fails its CRC, as for the broker: what is "
        "before is printed, why it ends is said on stderr.",
    )
)
@store_command
def cat(
    store: StoreOptions,
    topic: TopicOption = None,
    queue: QueueOption = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    offset: Annotated[
        int | None, typer.Option("--offset", help="From this queue offset on, in each queue.", show_default=False)
    ] = None,
    physical_offset: Annotated[
        int | None,
        typer.Option("--physical-offset", help="From the message at this CommitLog offset on.", show_default=False),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many messages.", min=1, show_default=False)] = None,
    decompress: DecompressOption = False,
    as_json: MessageJsonOption = False,
) -> None:
    """Print messages in log order. Exit 0 good, 1 the log's end is torn or corrupt, 2 cannot run."""
    with open_store(store) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        scan = snapshot.scan(
            topic, queue, begin_ms, end_ms, start_offset=physical_offset, queue_offset=offset, limit=limit
        )
        for at, message in scan.items():
            printer.print(message, at)
    is_good = scan.end is None or _tell_end(scan.end, store.path)
    if printer.problems or not is_good:
        raise typer.Exit(PROBLEMS_FOUND)


def _tell_end(end: LogEnd, path: str) -> bool:
    """Says where the log ends; whether that is a good end."""
    if end.is_clean:
        note(f"end of the log at offset {end.offset}: {end.reason}")
    else:
        note(f"the log ends at offset {end.offset} ({end.kind.value}): {end.reason}")
        hint(f"logdex verify {path} names every such place")
    return end.is_clean
