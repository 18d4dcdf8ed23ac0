"""A Kafka log directory opened for reading. Nothing is changed or locked.

Source: Kafka's LogManager; ``docs/formats/kafka-log-directory.md``.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Self, Unpack

from logdex.errors import LogdexError, MissingFileError, UsageError, VanishedError
from logdex.frames.opened_log import OpenedLog
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath
from logdex.jobs.reports import Progress
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.log_dir import KafkaLogDir, PartitionDir, found_twice, partitions_by_topic
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.directory.unfinished import opened_path
from logdex.kafka.internal_topics import INTERNAL_TOPICS
from logdex.kafka.read.key_query import require_key_index_dir
from logdex.kafka.read.plan import ReadPlan, plan_read
from logdex.kafka.read.read_filter import FilterOptions, ReadFilter, filter_of
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.settings.log_config import LogConfig, LogSettings, make_config
from logdex.kafka.snapshot.partition_snapshot import Key, PartitionSnapshot
from logdex.primitives.shown import counted, repr_of
from logdex.primitives.wrong_questions import require_most, require_open, require_times, unknown_part, unknown_topic


class LogDirSnapshot(OpenedLog[Record]):
    """A log directory (one of `log.dirs`): its partitions in use by name. Each is opened when it is
    first used.

    `log_dir` reads what belongs to the directory as a whole: checkpoints, committed offsets, the
    `__cluster_metadata` log, directories with a mark. Read-only; threads may share it as they may
    share a `PartitionSnapshot`. It is a context manager.
    """

    def __init__(
        self,
        path: StrPath | KafkaPath,
        config: LogConfig | None = None,
        *,
        env: Env | None = None,
        **settings: Unpack[LogSettings],
    ) -> None:
        self._env = env or DEFAULT_ENV
        self.config = make_config(config, settings)
        self.log_dir = KafkaLogDir(opened_path(path, self._env), env=self._env)
        self.path = self.log_dir.path
        self._closed = False
        self._lock = threading.RLock()
        self._files = OpenFiles(self._env)  # shared by all partitions, of which there may be thousands
        self._open: dict[str, PartitionSnapshot] = {}
        self._dirs: dict[str, PartitionDir] = {}
        self.refresh()

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), counted(len(self._dirs), "partition"), is_closed=self._closed)

    def refresh(self) -> None:
        """Lists the partitions again, and refreshes those that are open."""
        with self._lock:
            found = self.log_dir.partition_dirs()
            for one, other in found_twice(found):
                told = f"{self.path}: {one.name} and {other.name} are both partition {one.partition} of {one.topic}"
                raise UsageError(told, hint="give one of them, or move one out of the directory")
            self._dirs = {each.name: each for each in found}
            for name in [*self._open]:
                if name in self._dirs:
                    self._open[name].refresh()
                else:
                    self._open.pop(name).close()

    @property
    def partitions(self) -> Mapping[str, PartitionSnapshot]:
        """All partitions in use by name (``topic-N``), sorted by topic and number."""
        found = ((name, self._partition_if_there(name)) for name in self._dirs)
        return {name: each for name, each in found if each is not None}

    def topics(self) -> dict[str, list[int]]:
        """Returns partition numbers by topic."""
        require_open(self.path, is_closed=self._closed)
        return partitions_by_topic(self._dirs.values())

    def partition(self, topic: str, partition: int) -> PartitionSnapshot:
        """Returns one partition. Raises `MissingFileError` if it is not in this directory."""
        return self._some(topic, partition)[0]

    def _partition(self, name: str) -> PartitionSnapshot:
        with self._lock:
            if name not in self._open:
                path = self._dirs[name].kafka_path
                self._open[name] = PartitionSnapshot(path, self.config, env=self._env, open_files=self._files)
            return self._open[name]

    def _some(self, topic: str | None, partition: int | None) -> list[PartitionSnapshot]:
        """Returns the partitions of a topic, one partition, or all: sorted by topic and
        number, internal topics last."""
        require_open(self.path, is_closed=self._closed)
        if not isinstance(topic, str | None):
            raise UsageError(f"the topic is {topic!r}", hint="give a str")
        wanted = [
            each.name
            for each in sorted(self._dirs.values(), key=lambda each: each.topic in INTERNAL_TOPICS)
            if topic in (None, each.topic) and partition in (None, each.partition)
        ]
        if not wanted and (topic is not None or partition is not None):
            raise self._unknown(topic, partition)
        if topic is not None:
            return [self._partition(name) for name in wanted]
        return [each for each in map(self._partition_if_there, wanted) if each is not None]

    def _unknown(self, topic: str | None, partition: int | None) -> MissingFileError:
        known = self.topics()
        if topic is not None and (topic not in known or partition is None):
            return unknown_topic(topic, known, self.path)
        there = {number for name, numbers in known.items() if topic in (None, name) for number in numbers}
        assert partition is not None
        return unknown_part("partition", partition, topic, sorted(there), self.path)

    def _partition_if_there(self, name: str) -> PartitionSnapshot | None:
        """Returns a partition, or None if a broker has deleted it since the directory was
        listed."""
        try:
            return self._partition(name)
        except VanishedError:
            if self._env.exists(self._dirs[name].path):
                raise
            return None

    def scan(
        self,
        *,
        topic: str | None = None,
        partition: int | None = None,
        limit: int | None = None,
        progress: Progress | None = None,
        **wanted: Unpack[FilterOptions],
    ) -> KafkaScan[PartitionSnapshot]:
        """Returns a scan of the records of all partitions, or of those that are named, one
        partition after the other, sorted by topic and number. Internal topics (`INTERNAL_TOPICS`)
        come last. It returns at most `limit` records in all.

        Raises `MissingFileError`, with the nearest name, for an unknown topic or partition, and
        `UsageError` for `begin_ms` after `end_ms`.
        """
        return KafkaScan(
            self._some(topic, partition), filter_of(wanted, "topic", "partition", "limit"), limit, progress
        )

    def plan_read(
        self,
        wanted: ReadFilter,
        *,
        topic: str | None = None,
        partition: int | None = None,
        columns: Iterable[str] | None = None,
        split_bytes: int | None = None,
    ) -> ReadPlan:
        """Returns the plan of what to read for a filter from all partitions, or from those that are
        named, in splits that can be read independently (see `logdex.kafka.read.plan`)."""
        return plan_read(self._some(topic, partition), wanted, columns=columns, split_bytes=split_bytes)

    def query(
        self,
        topic: str,
        key: Key,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        max: int | None = None,
        *,
        partition: int | None = None,
        key_index_dir: StrPath | None = None,
        problems: list[LogdexError] | None = None,
    ) -> list[Record]:
        """Returns all records of a topic with exactly this key, or the newest `max`. They are
        sorted by timestamp, newest first, and within a partition by offset, highest first.

        The other arguments and errors are those of `PartitionSnapshot.query`. `key_index_dir` holds
        one folder ``topic-N`` per partition. `query_items` says which partition each record is of.
        """
        found = self.query_items(
            topic, key, begin_ms, end_ms, max, partition=partition, key_index_dir=key_index_dir, problems=problems
        )
        return [record for _, record in found]

    def query_items(
        self,
        topic: str,
        key: Key,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        max: int | None = None,
        *,
        partition: int | None = None,
        key_index_dir: StrPath | None = None,
        problems: list[LogdexError] | None = None,
    ) -> list[tuple[PartitionSnapshot, Record]]:
        """Returns the records of `query`, each with its partition."""
        require_times(begin_ms, end_ms)
        home = require_key_index_dir(key_index_dir, self._env)

        def answers(each: PartitionSnapshot) -> Iterator[tuple[PartitionSnapshot, Record]]:
            folder = None if home is None else f"{home}/{each.name}"
            found = each.iter_query(key, begin_ms, end_ms, key_index_dir=folder, problems=problems)
            return ((each, record) for record in found)

        merged = heapq.merge(*map(answers, self._some(topic, partition)), key=lambda found: -found[1].timestamp_ms)
        require_most(max=max)
        return [*islice(merged, max)]

    def close(self) -> None:
        """Closes all open partitions."""
        self._closed = True
        for snapshot in self._open.values():
            snapshot.close()
        self._open.clear()
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


KafkaSnapshot = PartitionSnapshot | LogDirSnapshot


def open_kafka(
    path: StrPath | KafkaPath,
    config: LogConfig | None = None,
    *,
    env: Env | None = None,
    **settings: Unpack[LogSettings],
) -> KafkaSnapshot:
    """Opens the Kafka path at `path`: a `LogDirSnapshot` for a log directory, else a
    `PartitionSnapshot`. `settings` are the fields of `LogConfig`.

    Raises `NotAStoreError` if `path` is not a Kafka path, or is an index file without its segment.
    """
    found = opened_path(path, env or DEFAULT_ENV)
    if found.kind is KafkaPathKind.LOG_DIR:
        return LogDirSnapshot(found, config, env=env, **settings)
    return PartitionSnapshot(found, config, env=env, **settings)
