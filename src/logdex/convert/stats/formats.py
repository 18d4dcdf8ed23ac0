"""What the figures need of each format: columns of a read, and how far consumer groups are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import LogSource
from logdex.convert.stats.report import GroupLag
from logdex.io.env import Env
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot, open_kafka
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot


@dataclass(frozen=True, slots=True)
class FigureColumns:
    """The columns of a format's read that are counted."""

    reads: tuple[str, ...]
    queue: str
    time_ms: str
    sizes: Callable[[pa.RecordBatch], pa.Array]
    keys: Callable[[pa.RecordBatch], pa.Array]


def _record_sizes(batch: pa.RecordBatch) -> pa.Array:
    lengths = [pc.binary_length(batch.column(name)).fill_null(0).cast(pa.int64()) for name in ("key", "value")]
    return pc.add(*lengths)


def _record_keys(batch: pa.RecordBatch) -> pa.Array:
    keys = batch.column("key")
    ends = np.concatenate([[0], np.cumsum(keys.is_valid().to_numpy(zero_copy_only=False))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), keys.drop_null())


COLUMNS: Mapping[str, FigureColumns] = {
    "rocketmq": FigureColumns(
        ("topic", "queue_id", "store_timestamp_ms", "size_bytes", "keys"),
        "queue_id",
        "store_timestamp_ms",
        lambda batch: batch.column("size_bytes"),
        lambda batch: batch.column("keys"),
    ),
    "kafka": FigureColumns(
        ("topic", "partition", "timestamp_ms", "key", "value"), "partition", "timestamp_ms", _record_sizes, _record_keys
    ),
}


def group_lags(source: LogSource, env: Env) -> list[GroupLag]:
    """Returns how far each consumer group is in each queue or partition of which it has committed
    an offset."""
    found: list[GroupLag] = []
    if isinstance(source, StoreSource):
        found = _store_lags(source, env)
    elif isinstance(source, LogDirSource):
        found = _log_lags(source, env)
    return sorted(found, key=lambda each: (-each.lag, each.group, each.topic, each.queue))


def _store_lags(source: StoreSource, env: Env) -> list[GroupLag]:
    with StoreSnapshot(source.path, env=env, **source.settings) as snapshot:
        if snapshot.commit_log.is_one_file:
            return []
        ends = {(queue.topic, queue.queue_id): queue.max_offset for queue in snapshot.queues()}
    committed = ConsumerOffsets.read(StorePaths(source.path).config, env=env).offsets
    return [
        GroupLag(_text(group), _text(topic), queue_id, offset, ends[topic, queue_id])
        for (topic, group), offsets in committed.items()
        for queue_id, offset in offsets.items()
        if (topic, queue_id) in ends and source.wanted.wants_queue(topic, queue_id)
    ]


def _log_lags(source: LogDirSource, env: Env) -> list[GroupLag]:
    with open_kafka(source.path, env=env, **source.settings) as snapshot:
        if not isinstance(snapshot, LogDirSnapshot):
            return []
        ends = {(each.topic, each.partition): each.log_end_offset for each in source.partitions(snapshot)}
        committed = snapshot.log_dir.consumer_offsets().offsets
    return [
        GroupLag(group, *place, commit.offset, ends[place])
        for (group, place), commit in committed.items()
        if place in ends
    ]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")
