"""Recognises what is at a path: a Kafka log directory, a partition's directory or a single file.
Only names are read, and the beginning of a file whose name says nothing.

Source: ``docs/formats/kafka-log-directory.md``.
"""

from __future__ import annotations

import posixpath
import shlex
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from logdex.errors import NotAStoreError, StorageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import PathLook, StrPath
from logdex.kafka.files import file_names as files
from logdex.kafka.files.file_names import PartitionName, parse_offset_file, parse_partition_dir
from logdex.layout.kafka import (
    LEGACY_RECORD_V0,
    LEGACY_RECORD_V1,
    LEGACY_SIZE_MIN_V0,
    LOG_OVERHEAD_SIZE_BYTES,
    MAGIC_V2,
    RECORD_BATCH,
)

_PARTITION_FILES = {files.PARTITION_METADATA, files.LEADER_EPOCH_CHECKPOINT}
_AT_MAGIC = RECORD_BATCH.offset_of("magic")
_CHECKPOINTS = {
    *(files.LEADER_EPOCH_CHECKPOINT, files.RECOVERY_POINT_CHECKPOINT, files.LOG_START_CHECKPOINT),
    *(files.HIGH_WATERMARK_CHECKPOINT, files.CLEANER_CHECKPOINT),
}
_OF_ROCKETMQ = frozenset(("commitlog", "consumequeue"))
_HINT = "give a log directory (log.dirs), one topic-N directory or one of its files"


class KafkaPathKind(Enum):
    """The kinds of Kafka paths."""

    LOG_DIR = "log directory"
    PARTITION = "partition"
    LOG = files.LOG_SUFFIX
    INDEX = files.INDEX_SUFFIX
    TIME_INDEX = files.TIME_INDEX_SUFFIX
    TXN_INDEX = files.TXN_INDEX_SUFFIX
    SNAPSHOT = files.SNAPSHOT_SUFFIX
    KEY_INDEX = files.KEY_INDEX_SUFFIX
    CHECKPOINT = "checkpoint"


_FILE_KINDS = {kind.value: kind for kind in KafkaPathKind if kind.value.startswith(".")}


@dataclass(frozen=True, slots=True)
class KafkaPath:
    """A path with its kind. `partition` is the topic, number and mark in the name of the partition
    directory, or None if that name is not a partition's. `offset` is the offset in a file's name,
    or -1 for a directory."""

    format: ClassVar[str] = "kafka"

    path: str
    kind: KafkaPathKind
    partition: PartitionName | None = None
    offset: int = -1

    @property
    def is_beside_a_log(self) -> bool:
        """Whether it is one file that goes with a .log, such as an index or a checkpoint."""
        return self.kind not in (KafkaPathKind.LOG_DIR, KafkaPathKind.PARTITION, KafkaPathKind.LOG)

    @property
    def has_entries(self) -> bool:
        """Whether it is one file whose entries can be listed."""
        return self.is_beside_a_log

    @property
    def description(self) -> str:
        """The kind in words: ``a Kafka log directory``, ``a Kafka partition``, ``a Kafka .log
        file``."""
        what = self.kind.value
        return f"a Kafka {what} file" if what.startswith(".") else f"a Kafka {what}"


def recognise(look: PathLook) -> KafkaPath | None:
    """Returns the Kafka path that was recognised, or None if there is nothing of Kafka's."""
    if look.is_dir():
        return _directory(look)
    return _file(look) if look.is_file() else None


def require_kafka(path: StrPath | KafkaPath, *, env: Env = DEFAULT_ENV) -> KafkaPath:
    """Returns the recognised Kafka path. A `KafkaPath` is returned as it is, without a second look.

    Raises `NotAStoreError`, which states what is there instead, if `path` is not a Kafka path.
    """
    if isinstance(path, KafkaPath):
        return path
    look = PathLook(path, env)
    found = recognise(look)
    if found is not None:
        return found
    if not look.exists():
        raise NotAStoreError("there is no such file or directory", path=look.path, hint="check the path")
    if _is_of_rocketmq(look):
        raise NotAStoreError(
            "this is of a RocketMQ store, not of a Kafka log", path=look.path, hint="logdex.open_store reads a store"
        )
    if not look.is_dir():
        raise why_not(look) or NotAStoreError(
            "this is not a file of a Kafka log that can be read alone", path=look.path, hint=_HINT
        )
    what = "the directory has no partitions and no segments" if look.names() else "the directory is empty"
    raise NotAStoreError(what, path=look.path, hint=_HINT)


def _is_of_rocketmq(look: PathLook) -> bool:
    """Whether this is a RocketMQ store, or its log or the directory of its queues, or a file in
    them."""
    return not _OF_ROCKETMQ.isdisjoint((*look.names(), *look.real_path.split("/")[-2:]))


def why_not(look: PathLook) -> NotAStoreError | None:
    """Returns the error for a .log file under another name, which states how to name it; None for
    anything else."""
    offset = _first_offset(look) if look.is_file() and _file(look) is None else None
    if offset is None:
        return None
    name = files.offset_file_name(offset, files.LOG_SUFFIX)
    return NotAStoreError(
        f"this is a Kafka .log file under another name, and its first offset is {offset}",
        path=look.path,
        hint=f"give it the name that brokers give it: ln -s {shlex.quote(look.real_path)} {name}",
    )


def _first_offset(look: PathLook) -> int | None:
    """Returns the offset of a batch that a file begins with, or None if no batch is there."""
    head, size = look.beginning
    if len(head) <= _AT_MAGIC:
        return None
    offset, length = (int.from_bytes(head[at : at + n], "big", signed=True) for at, n in ((0, 8), (8, 4)))
    magic = head[_AT_MAGIC]
    least = RECORD_BATCH.size_bytes - LOG_OVERHEAD_SIZE_BYTES if magic == MAGIC_V2 else LEGACY_SIZE_MIN_V0
    is_batch = offset >= 0 and magic <= MAGIC_V2 and least <= length <= size - LOG_OVERHEAD_SIZE_BYTES
    return offset if is_batch and (magic == MAGIC_V2 or _is_legacy_message(head, length)) else None


def _is_legacy_message(head: bytes, length: int) -> bool:
    """Whether the lengths of the key and the value of a message of magic 0 or 1 add up to its own.
    Other files, too, have a zero in the place of the magic."""
    at = (LEGACY_RECORD_V1 if head[_AT_MAGIC] else LEGACY_RECORD_V0).size_bytes
    at += 4 + max(int.from_bytes(head[at : at + 4], "big", signed=True), 0)
    end = LOG_OVERHEAD_SIZE_BYTES + length
    if at + 4 > len(head):
        return at + 4 <= end
    return at + 4 + max(int.from_bytes(head[at : at + 4], "big", signed=True), 0) == end


def _file(look: PathLook) -> KafkaPath | None:
    name = posixpath.basename(look.path)
    above = posixpath.basename(posixpath.dirname(look.real_path))
    if name in _CHECKPOINTS:
        return KafkaPath(look.path, KafkaPathKind.CHECKPOINT, parse_partition_dir(above))
    named = parse_offset_file(name)
    kind = None if named is None else _FILE_KINDS.get(named[1])
    if named is None or kind is None:
        return None
    return KafkaPath(look.path, kind, parse_partition_dir(above), named[0])


def _directory(look: PathLook) -> KafkaPath | None:
    names = look.names()
    partition = parse_partition_dir(posixpath.basename(look.real_path))
    if _holds_segments(names) or (partition is not None and (_PARTITION_FILES & set(names) or _is_new(look, names))):
        return KafkaPath(look.path, KafkaPathKind.PARTITION, partition)
    if files.LOG_DIRECTORY_FILES & set(names) or any(_is_partition(look, name) for name in names):
        return KafkaPath(look.path, KafkaPathKind.LOG_DIR)
    return None


def _is_new(look: PathLook, names: list[str]) -> bool:
    """Whether an empty directory is in a log directory: a broker is about to make its files."""
    if names:
        return False
    above = PathLook(posixpath.dirname(look.real_path), look.env)
    return not files.LOG_DIRECTORY_FILES.isdisjoint(above.names())


def _is_partition(look: PathLook, name: str) -> bool:
    if parse_partition_dir(name) is None:
        return False
    try:
        names = look.names(name)
    except StorageError:  # the disk cannot read it; others may tell
        return False
    return _holds_segments(names) or bool(_PARTITION_FILES & set(names))


def _holds_segments(names: list[str]) -> bool:
    return any((found := parse_offset_file(name)) is not None and found[1] in _FILE_KINDS for name in names)
