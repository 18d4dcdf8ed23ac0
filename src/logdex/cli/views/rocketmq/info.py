"""`logdex info` for RocketMQ stores, for one CommitLog file, and for one file that belongs to a
store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit, human_size, human_time, shown, table
from logdex.cli.views.file_facts import print_file
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.rocketmq.recognise.store_path import StorePath
    from logdex.rocketmq.snapshot.file_overview import FileOverview
    from logdex.rocketmq.snapshot.overview import IndexOverview, LogOverview, QueueOverview, StoreOverview


def parts(look: Any) -> Sequence[QueueOverview | FileOverview]:
    """Returns the parts with a JSON line of their own: the queues of a store, or the one file
    itself."""
    queues: Sequence[QueueOverview] | None = getattr(look, "queues", None)
    return [look] if queues is None else queues


def print_overview(found: StorePath, look: Any) -> None:
    """Prints an overview as text."""
    if found.holds_messages:
        _print_store(look)
    else:
        _print_file(look)


def _print_store(look: StoreOverview) -> None:
    what = "one RocketMQ CommitLog file" if look.is_one_file else f"a RocketMQ store, {_state(look)}"
    emit(f"{look.root}: {what}")
    table(
        [
            ("CommitLog", _commit_log(look)),
            ("", f"offsets {look.log.min_offset} to {look.log.end_offset}, {_times(look.log)}"),
            ("", f"its end ({look.log.end}): {look.log.end_reason}"),
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
    topics, queues = len({queue.topic for queue in look.queues}), counted(len(look.queues), "queue")
    counts = f"{counted(look.log.messages or 0, 'message')}, {counted(topics, 'topic')}, {queues}"
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
    return f"{counted(log.files, 'file')} of {each}, {used} in use"


def _times(times: LogOverview | IndexOverview) -> str:
    return f"{human_time(times.begin_timestamp_ms)} to {human_time(times.end_timestamp_ms)}"


def _consume_queues(look: StoreOverview) -> str:
    queues = look.queues
    counts = f"{counted(len(queues), 'queue')}, {counted(sum(queue.messages for queue in queues), 'message')}"
    if not look.has_consume_queues:
        return f"none; a scan of the CommitLog finds {counts}"
    files, size = sum(queue.files for queue in queues), sum(queue.size_bytes for queue in queues)
    return f"{counts}, {counted(files, 'file')}, {human_size(size)}"


def _index(look: StoreOverview) -> str:
    index = look.index
    if not index.files:
        return "none"
    counts = f"{counted(index.files, 'file')}, {counted(index.entries, 'entry', 'entries')}"
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
    # The engine's minimum is what it answers; fewer messages than from there on may be left.
    differs = any(queue.first_available_offset != queue.min_offset for queue in look.queues)
    more = ("AVAILABLE FROM",) if differs else ()
    rows: list[tuple[str, ...]] = [
        ("TOPIC", "QUEUE", "MIN", *more, "MAX (EXCL.)", "MESSAGES", "FIRST STORED", "LAST STORED")
    ]
    for queue in look.queues:
        rows.append(
            (
                shown(queue.topic),
                str(queue.queue_id),
                str(queue.min_offset),
                *((str(queue.first_available_offset),) if differs else ()),
                str(queue.max_offset),
                str(queue.messages),
                human_time(queue.begin_timestamp_ms),
                human_time(queue.end_timestamp_ms),
            )
        )
    table(rows, right=range(1, 5 + differs))


def _print_groups(look: StoreOverview) -> None:
    rows = [
        (shown(group), shown(queue.topic), str(queue.queue_id), str(offset), str(queue.lag(group)))
        for queue in look.queues
        for group, offset in queue.consumer_offsets.items()
    ]
    if rows:
        emit("")
        table([("GROUP", "TOPIC", "QUEUE", "OFFSET", "LAG"), *sorted(rows)], right=(2, 3, 4))


def _print_file(look: FileOverview) -> None:
    where = f" of the store {look.file.root}" if look.file.root is not None else ""
    print_file(look.file.path, f"{look.file.kind.value}{where}", look.size_bytes, look.facts)
    if look.content is not None:
        for line in json.dumps(look.content, indent=2, ensure_ascii=False).splitlines():
            emit(shown(line))
