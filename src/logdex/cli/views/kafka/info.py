"""`logdex info` for Kafka paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit, human_size, human_time, shown, table
from logdex.cli.views.file_facts import print_file
from logdex.primitives.shown import counted

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.snapshot.file_overview import KafkaFileOverview
    from logdex.kafka.snapshot.overview import KafkaOverview, PartitionOverview


def parts(look: Any) -> Sequence[PartitionOverview | KafkaFileOverview]:
    """Returns the parts with a JSON line of their own: the partitions, or the one file itself."""
    partitions: Sequence[PartitionOverview] | None = getattr(look, "partitions", None)
    return [look] if partitions is None else partitions


def print_overview(found: KafkaPath, look: Any) -> None:
    """Prints an overview as text."""
    if hasattr(look, "facts"):
        print_file(found.path, found.description, look.size_bytes, look.facts)
    else:
        _print_partitions_at(found, look)


def _print_partitions_at(found: KafkaPath, look: KafkaOverview) -> None:
    emit(f"{look.path}: {found.description}, {_state(look)}")
    in_use = [one for one in look.partitions if one.mark is None]
    rows = [*_whose(look), ("partitions", _partitions(look, in_use)), ("indexes", _indexes(look.partitions))]
    rows += _cluster(look)
    if look.other_names:
        rows.append(("other files", ", ".join(look.other_names)))
    table(rows)
    if look.partitions:
        emit("")
        _print_partitions(look.partitions)
    _print_details(look.partitions, alone=len(look.partitions) == 1)
    _print_groups(in_use)
    _print_readers(look.partitions)


def _state(look: KafkaOverview) -> str:
    if look.in_use:
        return "open in a broker or another writer"
    if look.clean is None:
        return "nothing says whether it was closed cleanly"
    return "shut down cleanly" if look.clean else "not shut down cleanly: its broker runs or was killed"


def _whose(look: KafkaOverview) -> list[tuple[str, str]]:
    if look.meta is None:
        return []
    return [("cluster", f"{look.meta.cluster_id or '-'}, node {look.meta.node_id}")]


def _partitions(look: KafkaOverview, in_use: list[PartitionOverview]) -> str:
    topics = len({one.topic for one in in_use})
    segments = sum(len(one.segments) for one in in_use)
    size = human_size(sum(one.size_bytes for one in in_use))
    text = f"{counted(len(in_use), 'partition')} of {counted(topics, 'topic')}, "
    text += f"{counted(segments, 'segment')}, {size}"
    marked = Counter(one.mark for one in look.partitions if one.mark is not None)
    return text + "".join(f", {count} marked {mark}" for mark, count in sorted(marked.items()))


def _indexes(partitions: list[PartitionOverview]) -> str:
    states = Counter(
        f"{name} {getattr(segment, field).state}"
        for one in partitions
        for segment in one.segments
        for name, field in ((".index", "offset_index"), (".timeindex", "time_index"), (".txnindex", "txn_index"))
        if not (field == "txn_index" and getattr(segment, field).state == "missing")
    )
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"


def _cluster(look: KafkaOverview) -> list[tuple[str, str]]:
    cluster = look.cluster_metadata
    if cluster is None:
        return []
    names = Counter(record.name for record in cluster.control_records)
    control = ", ".join(f"{count} {name}" for name, count in sorted(names.items())) or "none"
    return [
        ("metadata log", f"{counted(cluster.data_records, 'record')}, control records: {control}"),
        ("", f"{counted(len(cluster.snapshots), 'snapshot')}"),
    ]


def _print_partitions(partitions: list[PartitionOverview]) -> None:
    rows = [("TOPIC", "PARTITION", "START", "END (EXCL.)", "STABLE", "SEGMENTS", "SIZE", "FIRST", "LARGEST TIME", "")]
    for one in partitions:
        rows.append(
            (
                shown(one.topic),
                str(one.partition) if one.partition >= 0 else "-",
                str(one.log_start_offset),
                str(one.log_end_offset),
                str(one.last_stable_offset),
                str(len(one.segments)),
                human_size(one.size_bytes),
                human_time(one.begin_timestamp_ms),
                human_time(one.end_timestamp_ms),
                _remark(one),
            )
        )
    table(rows, right=(1, 2, 3, 4, 5, 6))


def _remark(one: PartitionOverview) -> str:
    parts = [] if one.mark is None else [f"marked {one.mark}"]
    if one.end != "end":
        parts.append(f"ends {one.end}")
    return ", ".join(parts)


def _print_details(partitions: list[PartitionOverview], *, alone: bool) -> None:
    """Prints the problems of all partitions, and the segments, epochs and producers of a single
    one."""
    for one in partitions:
        name = f"{shown(one.topic)}/{one.partition}"
        for first, producer in one.open_transactions.items():
            emit(f"  {name}: producer {producer} has a transaction open since offset {first}")
        if one.end != "end":
            emit(f"  {name}: {one.end_reason}")
    if not alone:
        return
    emit("")
    rows = [("SEGMENT", "SIZE", ".INDEX", ".TIMEINDEX", ".TXNINDEX")]
    for segment in partitions[0].segments:
        indexes = (segment.offset_index, segment.time_index, segment.txn_index)
        offset_index, time_index, txn_index = (f"{index.entries} ({index.state})" for index in indexes)
        if segment.txn_index.state == "missing":
            txn_index = "-"
        rows.append((str(segment.base_offset), human_size(segment.size_bytes), offset_index, time_index, txn_index))
    table(rows, right=(0, 1))
    epochs = ", ".join(f"{epoch.epoch} from {epoch.start_offset} on" for epoch in partitions[0].leader_epochs)
    emit(f"  leader epochs: {epochs or 'none'}; {counted(partitions[0].producers, 'producer')}")


def _print_groups(partitions: list[PartitionOverview]) -> None:
    found = [
        (group, one, offset, one.lag(group)) for one in partitions for group, offset in one.consumer_offsets.items()
    ]
    _print_lags(("GROUP", "OFFSET"), found)


def _print_readers(partitions: list[PartitionOverview]) -> None:
    found = [
        (name, one, offset, one.reader_lag(name)) for one in partitions for name, offset in one.reader_positions.items()
    ]
    _print_lags(("READER", "POSITION"), found)


def _print_lags(titles: tuple[str, str], found: list[tuple[str, PartitionOverview, int, int]]) -> None:
    """Prints who reads which partition, where it is, and its lag."""
    rows = [
        (shown(name), shown(one.topic), str(one.partition), str(offset), str(lag)) for name, one, offset, lag in found
    ]
    if rows:
        emit("")
        table([(titles[0], "TOPIC", "PARTITION", titles[1], "LAG"), *sorted(rows)], right=(2, 3, 4))
