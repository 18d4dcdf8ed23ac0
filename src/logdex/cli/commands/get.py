"""`logdex get`: messages of one queue through its ConsumeQueue, of one partition through its sparse indexes."""

from __future__ import annotations

from typing import Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.options import PartitionOption, StoreOptions, store_command, time_option
from logdex.cli.output import hint, note
from logdex.cli.views.kafka.get import get_kafka
from logdex.cli.views.kafka.output import ControlOption, IsolationOption
from logdex.cli.views.kafka.paths import kafka_path
from logdex.cli.views.rocketmq.output import DecompressOption, MessageJsonOption, MessagePrinter
from logdex.cli.views.rocketmq.stores import note_one_file, open_store
from logdex.errors import UsageError


@app.command(
    epilog=epilog(
        "logdex get store --topic orders --queue 0 --offset 100 --count 2",
        "logdex get store --topic orders --queue 0 --offset 0 --tag 'created || completed' --json",
        "logdex get store --topic orders --queue 0 --time 2026-03-05T12:00:00Z --count 1",
        "logdex get store/commitlog/00000000000000000000 --topic orders --queue 0 --offset 0 --count 1",
        "logdex get logs --topic orders --partition 0 --offset 40 --count 2",
        "logdex get logs/orders-0 --time 2023-11-14T22:13:20Z --count 1 --json",
        notes="The status and the offset to go on at are on stderr. A CommitLog file by itself has no index: it "
        "is scanned.",
    )
)
@store_command
def get(
    store: StoreOptions,
    topic: Annotated[str | None, typer.Option(help="The topic.", show_default=False)] = None,
    queue: Annotated[int | None, typer.Option(help="The queue id (RocketMQ).", show_default=False)] = None,
    partition: PartitionOption = None,
    offset: Annotated[
        int | None, typer.Option(help="Offset in the queue or partition to begin at.", show_default=False)
    ] = None,
    time_ms: Annotated[int | None, time_option("--time", "Begin at the first message at or after.")] = None,
    count: Annotated[int, typer.Option(help="At most so many messages.", min=1)] = 32,
    max_bytes: Annotated[
        int | None, typer.Option(help="At most so many bytes of messages, but one message.", min=1, show_default=False)
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="EXPR", help="Tags wanted, as 'a || b'; * for all.", show_default=False),
    ] = None,
    control: ControlOption = False,
    isolation: IsolationOption = None,
    decompress: DecompressOption = False,
    as_json: MessageJsonOption = False,
) -> None:
    """Read a queue or partition through its index, as a consumer does. Exit 0 good, 1 damage found, 2 cannot run."""
    if (offset is None) == (time_ms is None):
        raise UsageError("from where?", hint="say --offset N or --time T, one of them")
    found = kafka_path(
        store,
        rocketmq={"--queue": queue, "--max-bytes": max_bytes, "--tag": tag, "--decompress": decompress},
        kafka={"--partition": partition, "--control": control, "--isolation-level": isolation},
    )
    if found is not None:
        get_kafka(
            found,
            store,
            topic=topic,
            partition=partition,
            offset=offset,
            time_ms=time_ms,
            count=count,
            control=control,
            isolation=isolation,
            as_json=as_json,
        )
        return
    if topic is None or queue is None:
        raise UsageError("which queue?", hint=f"say --topic T --queue N; logdex info {store.path} lists them")
    _get_from_queue(store, (topic, queue, offset), time_ms, (count, max_bytes, tag), decompress, as_json)


def _get_from_queue(
    store: StoreOptions,
    place: tuple[str, int, int | None],
    time_ms: int | None,
    limits: tuple[int, int | None, str | None],
    decompress: bool,
    as_json: bool,
) -> None:
    """The two-step read of a RocketMQ queue."""
    topic, queue, offset = place
    from logdex.rocketmq.read.results import GetMessageStatus

    with open_store(store) as snapshot:
        printer = MessagePrinter(snapshot.commit_log, as_json=as_json, decompress=decompress)
        if offset is None:
            assert time_ms is not None
            offset = snapshot.get_offset_in_queue_by_time(topic, queue, time_ms)
            note(f"queue offset {offset} by that time")
        result = snapshot.get_message(topic, queue, offset, *limits)
        is_whole = note_one_file(snapshot)
        for at, message in zip(result.phy_offsets, result.messages, strict=True):
            printer.print(message, at)
    note(
        f"{result.status.value}; the queue goes from {result.min_offset} to {result.max_offset}, "
        f"go on at --offset {result.next_begin_offset}"
    )
    if result.status is GetMessageStatus.NO_MATCHED_LOGIC_QUEUE:
        hint(f"logdex info {store.path} lists the queues; logdex rebuild derives those that a store has lost")
    if result.problem is not None:
        note(f"the message at queue offset {result.next_begin_offset} cannot be read: {result.problem.message}")
    if printer.problems or result.problem is not None or not is_whole:
        raise typer.Exit(PROBLEMS_FOUND)
