"""The tables of a Kafka path, by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa

from logdex.frames.lag import lag_of
from logdex.frames.scan_frames import ScanSource
from logdex.frames.tables import Rows, TimedTable
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.directory.recognise import KafkaPath
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot, LogDirSnapshot
from logdex.kafka.snapshot.overview import KafkaOverview, overview
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.tables.index_entries import IndexEntries

PARTITIONS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("path", pa.string()),
        ("topic_id", pa.string()),
        ("log_start_offset", pa.int64()),
        ("log_end_offset", pa.int64()),
        ("last_stable_offset", pa.int64()),
        ("high_watermark", pa.int64()),
        ("recovery_point", pa.int64()),
        ("size_bytes", pa.int64()),
        ("begin_timestamp_ms", pa.int64()),
        ("end_timestamp_ms", pa.int64()),
        ("clean", pa.bool_()),
        ("producers", pa.int64()),
    ]
)
SEGMENTS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("base_offset", pa.int64()),
        ("size_bytes", pa.int64()),
        ("offset_index_entries", pa.int64()),
        ("time_index_entries", pa.int64()),
        ("aborted_transactions", pa.int64()),
    ]
)
CONSUMER_OFFSETS = pa.schema(
    [
        ("consumer_group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("lag", pa.int64()),
        ("leader_epoch", pa.int32()),
        ("metadata", pa.string()),
        ("commit_timestamp_ms", pa.int64()),
    ]
)


class KafkaTables:
    """The tables of a log directory or of one partition: `records`, `partitions`, `segments`,
    `index_entries`, `consumer_offsets`. A partition alone has no consumer offsets.

    `problems` are what could not be read for the small tables.
    """

    def __init__(
        self,
        found: KafkaPath,
        snapshot: KafkaSnapshot,
        *,
        control: bool = False,
        isolation: str | None = None,
        env: Env = DEFAULT_ENV,
    ) -> None:
        self.problems: list[str] = []
        self.path = found.path
        self._found, self._snapshot, self._env = found, snapshot, env
        self._control, self._isolation = control, isolation
        self._make()

    def _make(self) -> None:
        scan = self._snapshot.scan(control=self._control, isolation=self._isolation)
        self._records = ScanSource(scan)
        self.tables = {
            "records": TimedTable(self._records),
            "partitions": TimedTable(Rows(PARTITIONS, lambda: [each.to_json() for each in self._overview.partitions])),
            "segments": TimedTable(Rows(SEGMENTS, self._segments)),
            "index_entries": TimedTable(IndexEntries(scan.partitions)),
            "consumer_offsets": TimedTable(Rows(CONSUMER_OFFSETS, self._consumer_offsets)),
        }

    def refresh(self) -> None:
        """Makes the tables anew, with what was written meanwhile."""
        self._snapshot.refresh()
        self.__dict__.pop("_overview", None)
        self.problems = []
        self._make()

    @property
    def scans(self) -> list[KafkaScan[PartitionSnapshot]]:
        """The scans of records that reads have made."""
        return self._records.scans

    @cached_property
    def _overview(self) -> KafkaOverview:
        found = overview(self._found, self._snapshot.config, env=self._env)
        self.problems += found.problems
        return found

    def _segments(self) -> Iterator[dict[str, Any]]:
        for one in self._overview.partitions:
            for segment in one.segments:
                yield {
                    "topic": one.topic,
                    "partition": one.partition,
                    "base_offset": segment.base_offset,
                    "size_bytes": segment.size_bytes,
                    "offset_index_entries": segment.offset_index.entries,
                    "time_index_entries": segment.time_index.entries,
                    "aborted_transactions": segment.txn_index.entries,
                }

    def _consumer_offsets(self) -> Iterator[dict[str, Any]]:
        if not isinstance(self._snapshot, LogDirSnapshot):
            return
        ends = {(one.topic, one.partition): one for one in self._overview.partitions if one.mark is None}
        offsets = self._snapshot.log_dir.consumer_offsets().offsets
        for (group, partition), committed in sorted(offsets.items()):
            one = ends.get((partition.topic, partition.partition))
            lag = None if one is None else lag_of(committed.offset, one.log_start_offset, one.log_end_offset)
            place = {"consumer_group": group, "topic": partition.topic, "partition": partition.partition, "lag": lag}
            yield place | committed._asdict()
