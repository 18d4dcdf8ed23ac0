"""`logdex offsets` for Kafka paths: the named readers of partitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import emit_json, hint, note, table
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


def show(
    found: KafkaPath,
    settings: Mapping[str, Any],
    *,
    group: str | None,
    topic: str | None,
    reset_to: str | None,
    time_ms: int | None,
    yes: bool,
    as_json: bool,
) -> bool:
    """Prints how far readers are, with the offsets after a reset."""
    from logdex.kafka.readers.positions import reader_lock, write_position
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    with open_kafka(found, **settings) as snapshot:
        rows = []
        for partition in snapshot.scan(topic=topic).partitions:
            for name, offset in _readers(partition, group, is_named=topic is not None):
                target = None if reset_to is None else _target(partition, reset_to, time_ms)
                rows.append((name, partition, offset, target))
        if yes:
            for name, partition, _, target in rows:
                if target is not None:
                    with reader_lock(partition.path, name):
                        write_position(partition.path, name, target)
        if not rows and group is not None:
            raise UsageError(
                f"{found.path}: no reader {group} is known", hint=f"logdex offsets {found.path} lists them"
            )
        _print(rows, as_json)
    if reset_to is not None and not yes:
        note("nothing was changed")
        hint("add --yes to reset")
    return True


def _readers(partition: PartitionSnapshot, group: str | None, *, is_named: bool) -> Iterator[tuple[str, int | None]]:
    """The readers of a partition, or one of them: also without a position if its topic is named."""
    from logdex.kafka.readers.positions import read_position, reader_names

    for name in reader_names(partition.path) if group is None or not is_named else [group]:
        if group in (None, name):
            yield name, read_position(partition.path, name)


def _target(partition: PartitionSnapshot, reset_to: str, time_ms: int | None) -> int:
    low, high = partition.log_start_offset, partition.log_end_offset
    if time_ms is not None:
        found = partition.offset_for_timestamp(time_ms)
        return high if found is None else found.offset
    if reset_to in ("earliest", "latest"):
        return low if reset_to == "earliest" else high
    return min(max(int(reset_to), low), high)


def _print(rows: list[tuple[str, PartitionSnapshot, int | None, int | None]], as_json: bool) -> None:
    if not rows and not as_json:
        note("no reader has committed an offset")
        return
    is_reset = any(target is not None for *_, target in rows)
    lines = [("group", "topic", "partition", "offset", "from", "to", "lag", *(("reset to",) if is_reset else ()))]
    for name, partition, offset, target in rows:
        low, high = partition.log_start_offset, partition.log_end_offset
        lag = max(high - max(offset or 0, low), 0)
        if as_json:
            line = {"group": name, "topic": partition.topic, "partition": partition.partition, "offset": offset}
            line |= {"log_start_offset": low, "log_end_offset": high, "lag": lag}
            emit_json(line if target is None else {**line, "reset_to": target})
        shown = "-" if offset is None else str(offset)
        more = () if target is None else (str(target),)
        lines.append((name, partition.topic, str(partition.partition), shown, str(low), str(high), str(lag), *more))
    if not as_json:
        table(lines, right=range(2, 8), indent="")
