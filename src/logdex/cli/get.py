"""`logdex get`: messages of one queue through its ConsumeQueue, as a consumer reads them."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.message_output import DecompressOption, MessageJsonOption, MessagePrinter
from logdex.cli.options import StoreOptions, store_command, time_option
from logdex.cli.output import hint, note
from logdex.cli.stores import open_store
from logdex.errors import UsageError


@app.command(
    epilog=epilog(
        "logdex get store --topic orders --queue 0 --offset 100 --count 2",
        "logdex get store --topic orders --queue 0 --offset 0 --tag 'created || completed' --json",
        "logdex get store --topic orders --queue 0 --time 2026-03-05T12:00:00Z --count 1",
        notes="The status and the offset to go on at are on stderr.",
    )
)
@store_command
def get(
    store: StoreOptions,
    topic: Annotated[str, typer.Option(help="The topic.", show_default=False)],
    queue: Annotated[int, typer.Option(help="The queue id.", show_default=False)],
    offset: Annotated[int | None, typer.Option(help="Queue offset to begin at.", show_default=False)] = None,
    time_ms: Annotated[int | None, time_option("--time", "Begin at the first message stored at or after.")] = None,
    count: Annotated[int, typer.Option(help="At most so many messages.", min=1)] = 32,
    max_bytes: Annotated[
        int | None, typer.Option(help="At most so many bytes of messages, but one message.", min=1, show_default=False)
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="EXPR", help="Tags wanted, as 'a || b'; * for all.", show_default=False),
    ] = None,
    decompress: DecompressOption = False,
    as_json: MessageJsonOption = False,
) -> None:
    """Read a queue in two steps: its entries, then their messages. Exit 0 good, 1 damage found, 2 cannot run."""
    if (offset is None) == (time_ms is None):
        raise UsageError("from where?", hint="say --offset N or --time T, one of them")
    from logdex.rocketmq.results import GetMessageStatus

    with open_store(store) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        if offset is None:
            assert time_ms is not None
            offset = snapshot.get_offset_in_queue_by_time(topic, queue, time_ms)
            note(f"queue offset {offset} by that time")
        result = snapshot.get_message(topic, queue, offset, count, max_bytes, tag)
        for at, message in zip(result.phy_offsets, result.messages, strict=True):
            printer.print(message, at)
    note(
        f"{result.status.value}; the queue goes from {result.min_offset} to {result.max_offset}, "
        f"go on at --offset {result.next_begin_offset}"
    )
    if result.status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
        hint(f"logdex info {store.path} lists the queues; logdex rebuild derives those that are lost")
    if result.problem is not None:
        note(f"the message at queue offset {result.next_begin_offset} cannot be read: {result.problem.message}")
    if printer.problems or result.problem is not None:
        raise typer.Exit(PROBLEMS_FOUND)
