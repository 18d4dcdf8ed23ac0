"""`logdex info`: what is in a store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from logdex.cli.app import PROBLEMS_FOUND, app, epilog
from logdex.cli.options import StoreOptions, store_command
from logdex.cli.output import emit, emit_json, human_count, human_size, human_time, note, shown, table
from logdex.cli.views.kafka.info import look_at_kafka, print_kafka
from logdex.cli.views.kafka.paths import kafka_path
from logdex.cli.views.rocketmq.file_info import look_at_file, print_file
from logdex.cli.views.rocketmq.stores import resolve_in_any_case
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.snapshot.overview import KafkaOverview, PartitionOverview
    from logdex.rocketmq.snapshot.file_overview import FileOverview
    from logdex.rocketmq.snapshot.overview import IndexOverview, LogOverview, QueueOverview, StoreOverview


@app.command(
    epilog=epilog(
        "logdex info store",
        "logdex info store --json",
        "logdex info store --json --store",
        "logdex info store/commitlog/00000000000000000000",
        "logdex info store/checkpoint --json",
        "logdex info logs",
        "logdex info logs/orders-0 --json",
        notes="Reads the ends of files, not what lies between: `logdex verify` does that. A store without "
        "consumequeue/ has its log scanned, and so has a CommitLog file; of a ConsumeQueue file, an IndexFile, the "
        "checkpoint and config/*.json it tells what they say. Of a Kafka log directory __consumer_offsets is read, for "
        "the groups.",
    )
)
@store_command
def info(
    store: StoreOptions,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line for each topic's queue or partition.")] = False,
    of_store: Annotated[
        bool,
        typer.Option(
            "--store", help="With --json: one object for the whole instead of one for each queue or partition."
        ),
    ] = False,
) -> None:
    """Show what is there: topics, queues or partitions, ranges of offsets and time, sizes, geometry, clean or crashed.

    Exit 0 good, 1 something could not be read, 2 cannot run.
    """
    if of_store and not as_json:
        raise UsageError("--store goes with --json", hint=f"logdex info {store.path} --json --store")
    one = look_at_file(store.path)
    if one is not None:
        _tell(one, [one], lambda: print_file(one), as_json=as_json, of_store=of_store)
        return
    found = kafka_path(store)
    if found is None:
        look = _look(store)
        _tell(look, look.queues, lambda: _print(look), as_json=as_json, of_store=of_store)
    else:
        kafka = look_at_kafka(found, store)
        _tell(kafka, kafka.partitions, lambda: print_kafka(found, kafka), as_json=as_json, of_store=of_store)


def _tell(
    look: StoreOverview | KafkaOverview | FileOverview,
    parts: Sequence[QueueOverview | PartitionOverview | FileOverview],
    show: Callable[[], None],
    *,
    as_json: bool,
    of_store: bool,
) -> None:
    """An overview and its problems; as text by `show`, as JSON the whole or its `parts`."""
    if as_json:
        for each in [look] if of_store else parts:
            emit_json(each.to_json())
    else:
        show()
    for problem in look.problems:
        note(problem)
    if look.problems:
        raise typer.Exit(PROBLEMS_FOUND)


def _look(store: StoreOptions) -> StoreOverview:
    from logdex.rocketmq.snapshot.overview import overview

    config, geometry_error = resolve_in_any_case(store)
    look = overview(store.path, config)
    if geometry_error is not None:
        look.problems.append(geometry_error.message)
    look.problems += [f"{store.path}: CommitLog offsets {start} to {end} are missing" for start, end in look.log.gaps]
    return look


def _print(look: StoreOverview) -> None:
    what = "one RocketMQ CommitLog file" if look.is_one_file else f"a RocketMQ store, {_state(look)}"
    emit(f"{look.root}: {what}")
    table(
        [
            ("CommitLog", _commit_log(look)),
            ("", f"offsets {look.log.min_offset} to {look.log.end_offset}, {_times(look.log)}"),
            ("", f"ends with {look.log.end}: {look.log.end_reason}"),
            *(("", f"missing: offsets {start} to {end}") for start, end in look.log.gaps),
            *(_scanned(look) if look.is_one_file else _derived(look)),
            ("version", look.config.dialect.version),
            *(("", reason) for reason in look.config.evidence),
            *(("", f"assumed: {guess}") for guess in look.config.assumed),
        ]
    )
    if look.queues:
        emit("")
        _print_queues(look)
    _print_groups(look)


def _derived(look: StoreOverview) -> list[tuple[str, str]]:
    return [
        ("ConsumeQueues", _consume_queues(look)),
        ("IndexFiles", _index(look)),
        *_index_reach(look),
        ("checkpoint", _checkpoint(look)),
    ]


def _scanned(look: StoreOverview) -> list[tuple[str, str]]:
    topics, queues = len({queue.topic for queue in look.queues}), human_count(len(look.queues), "queue")
    counts = f"{human_count(look.log.messages or 0, 'message')}, {human_count(topics, 'topic')}, {queues}"
    return [("a scan finds", counts)]


def _state(look: StoreOverview) -> str:
    files = look.small_files
    if not files.is_unclean:
        return "shut down cleanly"
    process = f" (process {files.process_id})" if files.process_id is not None else ""
    return f"with an abort file{process}: its broker runs or was killed"


def _commit_log(look: StoreOverview) -> str:
    log = look.log
    each = human_size(look.config.mapped_file_size_commit_log)
    used = human_size(log.end_offset - log.min_offset)
    return f"{human_count(log.files, 'file')} of {each}, {used} in use"


def _times(times: LogOverview | IndexOverview) -> str:
    return f"{human_time(times.begin_timestamp_ms)} to {human_time(times.end_timestamp_ms)}"


def _consume_queues(look: StoreOverview) -> str:
    queues = look.queues
    counts = f"{human_count(len(queues), 'queue')}, {human_count(sum(queue.messages for queue in queues), 'message')}"
    if not look.has_consume_queues:
        return f"none; a scan of the CommitLog finds {counts}"
    files, size = sum(queue.files for queue in queues), sum(queue.size_bytes for queue in queues)
    return f"{counts}, {human_count(files, 'file')}, {human_size(size)}"


def _index(look: StoreOverview) -> str:
    index = look.index
    if not index.files:
        return "none"
    counts = f"{human_count(index.files, 'file')}, {human_count(index.entries, 'entry', 'entries')}"
    geometry = f"{look.config.max_hash_slot_num:,} slots, {look.config.max_index_num:,} entries at most"
    return f"{counts}, {human_size(index.size_bytes)} ({geometry})"


def _index_reach(look: StoreOverview) -> list[tuple[str, str]]:
    index = look.index
    if index.begin_phy_offset is None:
        return []
    return [("", f"cover offsets {index.begin_phy_offset} to {index.end_phy_offset}, {_times(index)}")]


def _checkpoint(look: StoreOverview) -> str:
    point = look.checkpoint
    if point is None:
        return "none"
    names = ("log", "queues", "index")
    return "flushed up to: " + ", ".join(
        f"{name} {human_time(time) if time else '-'}" for name, time in zip(names, point[:3], strict=True)
    )


def _print_queues(look: StoreOverview) -> None:
    rows = [("TOPIC", "QUEUE", "MIN", "MAX", "MESSAGES", "FIRST STORED", "LAST STORED")]
    for queue in look.queues:
        rows.append(
            (
                shown(queue.topic),
                str(queue.queue_id),
                str(queue.min_offset),
                str(queue.max_offset),
                str(queue.messages),
                human_time(queue.begin_timestamp_ms),
                human_time(queue.end_timestamp_ms),
            )
        )
    table(rows, right=(1, 2, 3, 4))


def _print_groups(look: StoreOverview) -> None:
    rows = [
        (shown(group), shown(queue.topic), str(queue.queue_id), str(offset), str(queue.lag(group)))
        for queue in look.queues
        for group, offset in queue.consumer_offsets.items()
    ]
    if rows:
        emit("")
        table([("GROUP", "TOPIC", "QUEUE", "OFFSET", "LAG"), *sorted(rows)], right=(2, 3, 4))
