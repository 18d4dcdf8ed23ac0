"""Read-only access to a log directory (one of `log.dirs`): partitions, checkpoints, ownership,
committed offsets.

Source: ``docs/formats/kafka-log-directory.md``; Kafka's LogManager.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from logdex.errors import NotAStoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.journal import LOCK_NAME
from logdex.kafka.directory.log_lock import lock_is_held
from logdex.kafka.directory.lost_segments import lost_segments
from logdex.kafka.directory.partition_files import read_offsets
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind, require_kafka
from logdex.kafka.files import file_names as segment_files
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint
from logdex.kafka.files.file_names import PartitionName, parse_partition_dir
from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties, read_topic_id
from logdex.kafka.internal_topics import cluster_metadata, consumer_offsets
from logdex.kafka.internal_topics.cluster_metadata import ClusterMetadata, read_cluster_metadata
from logdex.kafka.internal_topics.consumer_offsets import ConsumerOffsets, read_consumer_offsets
from logdex.primitives.shown import repr_of

_KNOWN_FILES = segment_files.LOG_DIRECTORY_FILES | {segment_files.LOCK_FILE, "bootstrap.checkpoint", LOCK_NAME}


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """A partition's directory. `mark` is None for a partition in use, ``delete`` (to be removed),
    ``future`` (being moved here from another log directory) or ``stray`` (no longer assigned to
    this broker)."""

    path: str
    name: str
    topic: str
    partition: int
    mark: str | None

    @property
    def kafka_path(self) -> KafkaPath:
        """This directory as a recognised path."""
        return KafkaPath(self.path, KafkaPathKind.PARTITION, PartitionName(self.topic, self.partition, self.mark))

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the partition number."""
        return TopicPartition(self.topic, self.partition)


def partitions_by_topic(partitions: Iterable[PartitionDir]) -> dict[str, list[int]]:
    """Returns partition numbers by topic, in the order of `partitions`."""
    found: dict[str, list[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each.partition)
    return found


def found_twice(partitions: Iterable[PartitionDir]) -> list[tuple[PartitionDir, PartitionDir]]:
    """Returns the directories in use that are of one partition, such as ``orders-0`` and
    ``orders-00``, in pairs with the first one of it. A broker fails to start with them."""
    first: dict[TopicPartition, PartitionDir] = {}
    in_use = [each for each in partitions if each.mark is None]
    return [(known, each) for each in in_use if (known := first.setdefault(each.topic_partition, each)) is not each]


class KafkaLogDir:
    """The log directory at `path`. Nothing is changed or locked. Each property and method reads the
    files again, so threads may share an object, and results always show the current state of a
    running broker's directory.

    Raises `NotAStoreError` if `path` is not a log directory. Methods raise a `CorruptError` with
    file and position if the file that they read is malformed.
    """

    def __init__(self, path: StrPath | KafkaPath, *, env: Env = DEFAULT_ENV) -> None:
        found = require_kafka(path, env=env)
        self.path = found.path
        if found.kind is not KafkaPathKind.LOG_DIR:
            what = f"a {found.kind.value} of Kafka's, not a log directory"
            raise NotAStoreError(what, path=self.path, hint="give the directory above it")
        self._env = env

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path))

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"

    # -- partitions -------------------------------------------------------------------------------
    def partition_dirs(self, *, marked: bool = False) -> list[PartitionDir]:
        """Returns the partitions in use, sorted by topic and number; with `marked` also those
        marked ``delete``, ``future`` or ``stray``."""
        found = []
        for name in self._env.list_dir(self.path):
            named = parse_partition_dir(name)
            if named is not None and (marked or named.mark is None) and self._env.is_dir(self._at(name)):
                found.append(PartitionDir(self._at(name), name, named.topic, named.partition, named.mark))
        return sorted(found, key=lambda each: (each.topic, each.partition, each.mark or "", each.name))

    def missing_partitions(self) -> dict[TopicPartition, str]:
        """Returns the partitions that are not here, and that the recovery points or the high
        watermarks name, each with the path of the checkpoint. A broker forgets a partition that was
        deleted or moved away a moment later."""
        here = {each.topic_partition for each in self.partition_dirs(marked=True)}
        found: dict[TopicPartition, str] = {}
        for file in (segment_files.RECOVERY_POINT_CHECKPOINT, segment_files.HIGH_WATERMARK_CHECKPOINT):
            for each in read_offsets(self.path, file, [], self._env):
                if each not in here:
                    found.setdefault(each, self._at(file))
        return dict(sorted(found.items()))

    def partition_dir(self, topic: str, partition: int) -> PartitionDir | None:
        """Returns the directory of a partition in use, or None if it is not here."""
        found = (each for each in self.partition_dirs() if (each.topic, each.partition) == (topic, partition))
        return next(found, None)

    def topics(self) -> dict[str, list[int]]:
        """Returns the numbers of the partitions in use, by topic."""
        return partitions_by_topic(self.partition_dirs())

    def other_names(self) -> list[str]:
        """Returns the names in the directory that are neither partitions nor files that Kafka
        uses."""
        partitions = {each.name for each in self.partition_dirs(marked=True)}
        return [name for name in self._env.list_dir(self.path) if name not in partitions | _KNOWN_FILES]

    def topic_id(self, partition: PartitionDir) -> uuid.UUID | None:
        """Returns the topic id in a partition's `partition.metadata`, or None without that file."""
        return read_topic_id(partition.path, env=self._env)

    # -- the directory's own files ----------------------------------------------------------------
    def recovery_points(self) -> dict[TopicPartition, int]:
        """Returns the offset up to which each log is flushed."""
        return self._offsets(segment_files.RECOVERY_POINT_CHECKPOINT)

    def log_start_offsets(self) -> dict[TopicPartition, int]:
        """Returns the log start offset of each log whose start is not the base offset of its first
        segment."""
        return self._offsets(segment_files.LOG_START_CHECKPOINT)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Returns the offset up to which each log is replicated."""
        return self._offsets(segment_files.HIGH_WATERMARK_CHECKPOINT)

    def cleaner_offsets(self) -> dict[TopicPartition, int]:
        """Returns the offset up to which each compacted log is cleaned."""
        return self._offsets(segment_files.CLEANER_CHECKPOINT)

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        return read_offset_checkpoint(self._at(name), env=self._env)

    def meta_properties(self) -> MetaProperties | None:
        """Returns the content of `meta.properties` (cluster id, node id, directory id), or None
        without that file."""
        path = self._at(segment_files.META_PROPERTIES)
        return MetaProperties.read(path, env=self._env) if self._env.exists(path) else None

    def clean_shutdown(self) -> CleanShutdown | None:
        """Returns the mark of a clean shutdown; None after a crash and while a broker runs."""
        return CleanShutdown.read(self._at(segment_files.CLEAN_SHUTDOWN), env=self._env)

    def is_locked(self) -> bool | None:
        """Whether a broker or another writer has the directory open; None where the operating
        system cannot report it."""
        return lock_is_held(self.path, env=self._env)

    # -- internal topics --------------------------------------------------------------------------
    def consumer_offsets(self) -> ConsumerOffsets:
        """Returns the committed offsets of consumer groups, from all partitions of
        `__consumer_offsets` in this directory."""
        mine = [each.path for each in self.partition_dirs() if each.topic == consumer_offsets.TOPIC]
        found = read_consumer_offsets(mine, env=self._env)
        found.problems += [lost.error() for path in mine for lost in lost_segments(path, (), lambda: 0, self._env)]
        return found

    def cluster_metadata(self) -> ClusterMetadata | None:
        """Returns what the control records of the `__cluster_metadata` log contain, or None if that
        log is not in this directory."""
        found = self.partition_dir(cluster_metadata.TOPIC, 0)
        return None if found is None else read_cluster_metadata(found.path, env=self._env)
