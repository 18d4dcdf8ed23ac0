"""`logdex cat`: the messages of a store in the order of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.options import (
    FromOption,
    PartitionOption,
    QueueOption,
    StoreOptions,
    ToOption,
    TopicOption,
    store_command,
)
from logdex.cli.output import hint, note
from logdex.cli.views.kafka.cat import cat_kafka
from logdex.cli.views.kafka.output import ControlOption, IsolationOption
from logdex.cli.views.kafka.paths import kafka_path
from logdex.cli.views.rocketmq.output import DecompressOption, MessageJsonOption, MessagePrinter
from logdex.cli.views.rocketmq.stores import open_store

if TYPE_CHECKING:
    from logdex.kafka.read.record_scan import ScanOptions
    from logdex.rocketmq.scan.scanner import LogEnd


@app.command(
    epilog=epilog(
        "logdex cat store --limit 3",
        "logdex cat store --topic orders --queue 0 --offset 2000 --limit 2 --json",
        "logdex cat store --topic payments --from 2026-03-03T08:00 --to 2026-03-03T09:00",
        "logdex cat store/commitlog/00000000000000000000 --limit 3",
        "logdex cat logs --topic orders --partition 0 --offset 40 --limit 3",
        "logdex cat logs/orders-0/00000000000000000000.log --control --json",
        notes="A CommitLog ends at the first message that is not whole or fails its CRC, as for the broker: what is "
        "before is printed, why it ends is said on stderr. Of a Kafka log bad batches are passed over and told. All "
        "that is in its files is printed, unless --isolation-level asks for what a consumer sees: one partition after "
        "the other, by name, internal topics such as __consumer_offsets last.",
    )
)
@store_command
def cat(
    store: StoreOptions,
    topic: TopicOption = None,
    queue: QueueOption = None,
    partition: PartitionOption = None,
    begin_ms: FromOption = None,
    end_ms: ToOption = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", help="From this offset on, in each queue or partition.", show_default=False),
    ] = None,
    physical_offset: Annotated[
        int | None,
        typer.Option(
            "--physical-offset", help="From the message at this CommitLog offset on (RocketMQ).", show_default=False
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many messages.", min=1, show_default=False)] = None,
    control: ControlOption = False,
    isolation: IsolationOption = None,
    decompress: DecompressOption = False,
    as_json: MessageJsonOption = False,
) -> None:
    """Print messages in log order. Exit 0 good, 1 the log is torn or corrupt, 2 cannot run."""
    found = kafka_path(
        store,
        rocketmq={"--queue": queue, "--physical-offset": physical_offset, "--decompress": decompress},
        kafka={"--partition": partition, "--control": control, "--isolation-level": isolation},
    )
    if found is not None:
        wanted: ScanOptions = {
            "begin_ms": begin_ms,
            "end_ms": end_ms,
            "offset": offset,
            "limit": limit,
            "control": control,
            "isolation": isolation,
        }
        cat_kafka(found, store, wanted, topic=topic, partition=partition, as_json=as_json)
        return
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
