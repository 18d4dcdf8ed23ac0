"""What of Kafka's is at a path: a log directory, a partition's directory, one file. Reads names only.

Source: ``docs/formats/kafka-log-directory.md``.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from enum import Enum

from logdex.errors import NotAStoreError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.files import file_names as files
from logdex.kafka.files.file_names import PartitionName, parse_offset_file, parse_partition_dir

_PARTITION_FILES = {files.PARTITION_METADATA, files.LEADER_EPOCH_CHECKPOINT}
_HINT = "give a log directory (log.dirs), one topic-N directory or one of its files"


class KafkaPathKind(Enum):
    """What a path can be."""

    LOG_DIR = "log directory"
    PARTITION = "partition"
    LOG = files.LOG_SUFFIX
    INDEX = files.INDEX_SUFFIX
    TIME_INDEX = files.TIME_INDEX_SUFFIX
    TXN_INDEX = files.TXN_INDEX_SUFFIX
    SNAPSHOT = files.SNAPSHOT_SUFFIX
    KEY_INDEX = files.KEY_INDEX_SUFFIX


_FILE_KINDS = {kind.value: kind for kind in KafkaPathKind if kind.value.startswith(".")}


@dataclass(frozen=True, slots=True)
class KafkaPath:
    """A path with its kind. `partition`: what the directory's name says of a partition or a file, None where it is no
    partition's name; `offset`: that in a file's name, -1 for a directory."""

    path: str
    kind: KafkaPathKind
    partition: PartitionName | None = None
    offset: int = -1


def recognise(path: str, *, env: Env = DEFAULT_ENV) -> KafkaPath | None:
    """What is at `path`; None for nothing of Kafka's."""
    if env.is_dir(path):
        return _directory(path, env)
    return _file(path, env) if env.is_file(path) else None


def require_kafka(path: str, *, env: Env = DEFAULT_ENV) -> KafkaPath:
    """The same; `NotAStoreError` says what is there instead."""
    found = recognise(path, env=env)
    if found is not None:
        return found
    if not env.exists(path):
        raise NotAStoreError("no such file or directory", path=path, hint="check the path")
    if not env.is_dir(path):
        raise NotAStoreError("not a file of a Kafka log that can be read by itself", path=path, hint=_HINT)
    what = "holds no partitions and no segments" if env.list_dir(path) else "an empty directory"
    raise NotAStoreError(what, path=path, hint=_HINT)


def _file(path: str, env: Env) -> KafkaPath | None:
    named = parse_offset_file(posixpath.basename(path))
    kind = None if named is None else _FILE_KINDS.get(named[1])
    if named is None or kind is None:
        return None
    above = posixpath.basename(posixpath.dirname(env.real_path(path)))
    return KafkaPath(path, kind, parse_partition_dir(above), named[0])


def _directory(path: str, env: Env) -> KafkaPath | None:
    names = env.list_dir(path)
    partition = parse_partition_dir(posixpath.basename(env.real_path(path)))
    if _holds_segments(names) or (partition is not None and _PARTITION_FILES & set(names)):
        return KafkaPath(path, KafkaPathKind.PARTITION, partition)
    if files.LOG_DIRECTORY_FILES & set(names) or any(_is_partition(path, name, env) for name in names):
        return KafkaPath(path, KafkaPathKind.LOG_DIR)
    return None


def _is_partition(parent: str, name: str, env: Env) -> bool:
    inner = f"{parent}/{name}"
    if parse_partition_dir(name) is None or not env.is_dir(inner):
        return False
    names = env.list_dir(inner)
    return _holds_segments(names) or bool(_PARTITION_FILES & set(names))


def _holds_segments(names: list[str]) -> bool:
    return any((found := parse_offset_file(name)) is not None and found[1] in _FILE_KINDS for name in names)
