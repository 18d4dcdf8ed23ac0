"""How far consumer groups are in the queues or partitions of which they have committed offsets."""

from __future__ import annotations

from logdex.convert.sources.kafka import LogDirSource, unless_deleted
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import LogSource
from logdex.convert.stats.report import GroupLag
from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot, open_kafka
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


def group_lags(source: LogSource, losses: list[str], env: Env) -> list[GroupLag]:
    """Returns how far each consumer group is in each queue or partition of which it has committed
    an offset. Adds to `losses` if an older file of a store tells it, or none, and what of
    `__consumer_offsets` cannot be read."""
    found: list[GroupLag] = []
    if isinstance(source, StoreSource):
        found = _store_lags(source, losses, env)
    elif isinstance(source, LogDirSource):
        found = _log_lags(source, losses, env)
    return sorted(found, key=lambda each: (-each.lag, each.group, each.topic, each.queue))


def _store_lags(source: StoreSource, losses: list[str], env: Env) -> list[GroupLag]:
    with StoreSnapshot(source.path, env=env, **source.settings) as snapshot:
        if snapshot.commit_log.is_one_file:
            return []
        bounds = {
            (each.topic, each.queue_id): (each.first_available_offset, each.max_offset) for each in snapshot.queues()
        }
    try:
        read = ConsumerOffsets.read(StorePaths(source.path).config, env=env)
    except StoreError as error:
        losses.append(error.message)
        return []
    if read.file.remark is not None:
        losses.append(read.file.remark)
    return [
        GroupLag(_text(group), _text(topic), queue_id, offset, *bounds[topic, queue_id])
        for (topic, group), offsets in read.offsets.items()
        for queue_id, offset in offsets.items()
        if (topic, queue_id) in bounds and source.wanted.wants_queue(topic, queue_id)
    ]


def _log_lags(source: LogDirSource, losses: list[str], env: Env) -> list[GroupLag]:
    with open_kafka(source.path, env=env, **source.settings) as snapshot:
        if not isinstance(snapshot, LogDirSnapshot):
            return []
        bounds = {
            (each.topic, each.partition): found
            for each in source.partitions(snapshot)
            if (found := unless_deleted(each, _log_bounds)) is not None
        }
        committed = snapshot.log_dir.consumer_offsets()
    losses += map(str, committed.problems)
    return [
        GroupLag(group, *place, commit.offset, *bounds[place])
        for (group, place), commit in committed.offsets.items()
        if place in bounds
    ]


def _log_bounds(partition: PartitionSnapshot) -> tuple[int, int]:
    return partition.log_start_offset, partition.log_end_offset


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
