"""`logdex offsets` for Kafka paths: the named readers of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.views.offset_rows import OffsetRow, print_offsets
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.readers.progress import ReaderProgress


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
    from logdex.kafka.readers.progress import progress_of, reset_target
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    with open_kafka(found, **settings) as snapshot:
        progress = progress_of(snapshot.scan(topic=topic).partitions, group, is_named=topic is not None)
        targets = [None if reset_to is None else reset_target(each.partition, reset_to, time_ms) for each in progress]
        for each, target in zip(progress, targets, strict=True):
            if yes and target is not None:
                with reader_lock(each.partition.path, each.name):
                    write_position(each.partition.path, each.name, target)
        if not progress and group is not None:
            raise UsageError(
                f"{found.path}: no reader {group} is known", hint=f"logdex offsets {found.path} lists them"
            )
        print_offsets(
            [_row(each, target) for each, target in zip(progress, targets, strict=True)],
            names=("partition", "log_start_offset", "log_end_offset"),
            column="partition",
            nothing="no reader has committed an offset",
            as_json=as_json,
        )
    return True


def _row(each: ReaderProgress, target: int | None) -> OffsetRow:
    one = each.partition
    low, high = one.log_start_offset, one.log_end_offset
    return OffsetRow(each.name, one.topic, one.partition, each.offset, low, high, each.lag, target)
