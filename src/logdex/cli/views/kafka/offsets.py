"""`logdex offsets` for Kafka paths: the broker's consumer groups, and the named readers of
partitions, of which only these can be reset."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from logdex.cli.output import note
from logdex.cli.views.offset_rows import OffsetRow, print_offsets, tell_moved, tell_new_group
from logdex.errors import UsageError

if TYPE_CHECKING:
    from logdex.kafka.directory.recognise import KafkaPath
    from logdex.kafka.readers.progress import ReaderProgress
    from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot


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
    """Prints how far groups and readers are, with the offsets after a reset. Returns whether all of
    `__consumer_offsets` could be read."""
    from logdex.kafka.files.reader_positions import reader_lock, write_position
    from logdex.kafka.readers.progress import group_progress, missing_of_groups, progress_of, reset_target
    from logdex.kafka.snapshot.log_dir_snapshot import open_kafka

    with open_kafka(found, **settings) as snapshot:
        partitions = snapshot.scan(topic=topic).partitions
        problems: list[str] = []
        groups = [each for each in group_progress(snapshot, partitions, problems) if group in (None, each.name)]
        for text in [*problems, *missing_of_groups(snapshot)]:
            note(text)
        if reset_to is not None and progress_of(partitions, group, is_named=False):
            groups = []  # a reader of Logdex's has the same name, and is what can be reset
        if groups and reset_to is not None:
            raise UsageError(
                f"{group} is a consumer group of the broker, which keeps its offsets",
                hint="kafka-consumer-groups.sh --reset-offsets resets it; Logdex resets its own named readers",
            )
        if reset_to is not None and group is not None:
            tell_new_group(group, _names(snapshot))
        is_named = topic is not None and not groups
        progress = progress_of(partitions, group, is_named=is_named)
        targets = [None if reset_to is None else reset_target(each.partition, reset_to, time_ms) for each in progress]
        tell_moved(reset_to, targets)
        for each, target in zip(progress, targets, strict=True):
            if yes and target is not None:
                with reader_lock(each.partition.path, each.name):
                    write_position(each.partition.path, each.name, target)
        if not progress and not groups and group is not None:
            hint = f"logdex offsets {shlex.quote(found.path)} lists them"
            raise UsageError(f"{found.path}: no group or reader {group} is known", hint=hint)
        print_offsets(
            [
                *(_row(each, None, "group") for each in groups),
                *(_row(each, target, "reader") for each, target in zip(progress, targets, strict=True)),
            ],
            names=("partition", "log_start_offset", "log_end_offset"),
            column="partition",
            nothing="no consumer group and no reader has committed an offset",
            as_json=as_json,
        )
    return not problems


def _names(snapshot: KafkaSnapshot) -> list[str]:
    """The readers and groups that have offsets of any partition."""
    from logdex.kafka.readers.progress import group_progress, progress_of

    partitions = snapshot.scan().partitions
    known = [*progress_of(partitions, None, is_named=False), *group_progress(snapshot, partitions)]
    return [each.name for each in known]


def _row(each: ReaderProgress, target: int | None, kind: str) -> OffsetRow:
    one = each.partition
    low, high = one.log_start_offset, one.log_end_offset
    return OffsetRow(each.name, one.topic, one.partition, each.offset, low, high, each.lag, target, kind)
