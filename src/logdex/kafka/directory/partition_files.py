"""The segments and checkpoints of a partition's directory, for readers that change nothing.

Safe beside a running broker: a segment that is deleted while the directory is read is left out.

Source: Kafka's LocalLog, LogManager; ``docs/formats/kafka-log-directory.md``.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from logdex.errors import LogdexError, NotAStoreError, StorageError, UsageError, VanishedError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    SWAP_SUFFIX,
    PartitionName,
    offsets_of,
    parse_partition_dir,
)
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.settings.log_config import LogConfig

UNKNOWN_PARTITION = -1
_LISTED_MAX = 10
_SWAP_LOOKS_MAX = 10
_SWAP_PAUSE_S = 0.005
_HOME_FILES = (META_PROPERTIES, RECOVERY_POINT_CHECKPOINT, CLEAN_SHUTDOWN)


def is_log_directory(path: str, *, env: Env) -> bool:
    """Whether `path` is a log directory, that is, a directory in which a broker keeps
    partitions."""
    return any(env.is_file(posixpath.join(path, name)) for name in _HOME_FILES)


def home_of(directory: str, *, env: Env) -> tuple[str, bool]:
    """Returns (the directory with the checkpoints of the partition in `directory`, whether that is
    `directory` itself because its parent is not a log directory). `directory` must be a real
    path."""
    parent = posixpath.dirname(directory)
    return (parent, False) if is_log_directory(parent, env=env) else (directory, True)


class Checkpoints(NamedTuple):
    """The offsets that the checkpoints state for a partition; None where a checkpoint states
    none."""

    log_start_offset: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None


def partition_directory(found: KafkaPath) -> str:
    """Returns the partition directory that `found` is, or that its file is in."""
    return found.path if found.kind is KafkaPathKind.PARTITION else posixpath.dirname(found.path) or "."


def partition_name(found: KafkaPath, env: Env) -> PartitionName:
    """Returns the topic, number and mark in the directory's name. If the name is not a partition's,
    the topic is the name and the number is -1."""
    if found.partition is not None:
        return found.partition
    name = posixpath.basename(env.real_path(partition_directory(found)))
    return parse_partition_dir(name) or PartitionName(name, UNKNOWN_PARTITION)


def open_segments(found: KafkaPath, config: LogConfig, env: Env, open_files: OpenFiles) -> list[LogSegment]:
    """Returns the segments in order of base offset; for a .log file, that one segment. The caller
    must close them.

    A log that is cut meanwhile, as a follower's, may have other segments under other names by then,
    so the directory is listed again, `_LISTED_MAX` times at most. Retention removes the first
    segments, which changes nothing about the others.

    Raises `NotAStoreError` if `found` is neither a partition nor a .log file.
    """
    if found.kind not in (KafkaPathKind.LOG, KafkaPathKind.PARTITION):
        raise not_alone(found)
    directory = partition_directory(found)
    for look in range(1, _LISTED_MAX + 1):
        bases = [found.offset]
        if found.kind is KafkaPathKind.PARTITION:
            bases = offsets_of(_names_after_swap(directory, env), LOG_SUFFIX)
        segments = _open_listed(directory, bases, config, env, open_files)
        opened = [segment.base_offset for segment in segments]
        if look == _LISTED_MAX or opened == bases[-len(opened) :]:
            break
        for segment in segments:
            segment.close()
    return segments


def _open_listed(
    directory: str, bases: Iterable[int], config: LogConfig, env: Env, open_files: OpenFiles
) -> list[LogSegment]:
    """Returns the segments with some base offsets, without those that have been removed."""
    segments: list[LogSegment] = []
    try:
        for base_offset in bases:
            segment = _open_segment(directory, base_offset, config, env, open_files)
            if segment is not None:
                segments.append(segment)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return segments


def _open_segment(
    directory: str, base_offset: int, config: LogConfig, env: Env, open_files: OpenFiles
) -> LogSegment | None:
    """Returns a segment, or None if it has been removed since the directory was listed. A broker
    that compacts removes a .log before its new one gets the name, so one that is there again is
    opened again."""
    for _ in range(_SWAP_LOOKS_MAX):
        try:
            return LogSegment(directory, base_offset, config, env=env, open_files=open_files)
        except StorageError as error:
            if not env.exists(error.path):
                return None
            if not isinstance(error, VanishedError):
                raise
    return LogSegment(directory, base_offset, config, env=env, open_files=open_files)


def _names_after_swap(directory: str, env: Env) -> list[str]:
    """Returns the names in a directory. While a compaction gives segments their names, some are
    missing, so its end is waited for, but not for long: a broker may have crashed there."""
    names = env.list_dir(directory)
    for _ in range(_SWAP_LOOKS_MAX):
        if not offsets_of(names, LOG_SUFFIX + SWAP_SUFFIX):
            break
        time.sleep(_SWAP_PAUSE_S)
        names = env.list_dir(directory)
    return names


def not_alone(found: KafkaPath) -> NotAStoreError:
    """Returns the error for an index, a snapshot file or a checkpoint, which cannot be read without
    its segment."""
    if found.kind is KafkaPathKind.CHECKPOINT:
        return NotAStoreError(
            "a checkpoint, which contains no records",
            path=found.path,
            hint=f"give {partition_directory(found)}; logdex cat lists the lines of this file",
        )
    name = posixpath.basename(found.path).removesuffix(found.kind.value) + LOG_SUFFIX
    return NotAStoreError(
        f"a {found.kind.value} file: it speaks of its segment, and does not say by itself what is in it",
        path=found.path,
        hint=f"give {posixpath.join(posixpath.dirname(found.path), name)}, or {partition_directory(found)}",
    )


def read_checkpoints(directory: str, name: PartitionName, problems: list[LogdexError], env: Env) -> Checkpoints:
    """Returns the checkpointed offsets of a partition, from its log directory, or from the
    partition's own directory outside any log directory. A partition with a mark has none. A
    checkpoint that cannot be read counts as empty, as for the broker, and its error is added to
    `problems`."""
    if name.mark is not None:
        return Checkpoints()
    home, is_lone = home_of(env.real_path(directory), env=env)
    files = (LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
    known = (read_offsets(home, file, problems, env) for file in files)
    place = TopicPartition(name.topic, name.partition)
    return Checkpoints(*(offset_in(offsets, place, is_lone=is_lone) for offsets in known))


def stated_start(directory: str, problems: list[LogdexError], env: Env) -> int:
    """Returns the checkpointed log start offset of the partition in `directory`, or 0 if none is
    stated. See `read_checkpoints`."""
    return stated_checkpoints(directory, problems, env).log_start_offset or 0


def stated_checkpoints(directory: str, problems: list[LogdexError], env: Env) -> Checkpoints:
    """Returns the checkpointed offsets of the partition in `directory`. See `read_checkpoints`."""
    name = partition_name(KafkaPath(directory, KafkaPathKind.PARTITION), env)
    return read_checkpoints(directory, name, problems, env)


def offset_in(offsets: Mapping[TopicPartition, int], place: TopicPartition, *, is_lone: bool) -> int | None:
    """Returns the offset that a checkpoint states for a partition. With `is_lone`, it is in the
    partition's own directory, which may have been copied or renamed: its only line is about this
    partition, whatever name it has."""
    if is_lone and len(offsets) == 1:
        return next(iter(offsets.values()))
    return offsets.get(place)


def read_offsets(home: str, file: str, problems: list[LogdexError], env: Env) -> dict[TopicPartition, int]:
    """Returns the offsets in the checkpoint `file` in `home`. If it cannot be read, returns no
    offsets and adds the error to `problems`."""
    try:
        return read_offset_checkpoint(posixpath.join(home, file), env=env)
    except LogdexError as error:  # raised too if the path is not a file
        problems.append(error)
        return {}


def require_own(path: str, topic: str, partition: int, wanted_topic: str | None, wanted: int | None) -> None:
    """Raises `UsageError` if another topic or partition is wanted than that of the partition at
    `path`; None is any."""
    others = []
    if wanted_topic not in (None, topic):
        others.append(f"topic {wanted_topic!r}")
    if wanted not in (None, partition):
        others.append(f"partition {wanted}")
    if others:
        name = f"{topic}-{partition}" if partition >= 0 else topic
        raise UsageError(
            f"{path} holds one partition, {name}, and not {' '.join(others)}", hint="leave out --topic and --partition"
        )


def require_partition(path: str, env: Env) -> None:
    """Raises `NotAStoreError` unless a directory is a partition by its name, or holds segments."""
    if parse_partition_dir(posixpath.basename(env.real_path(path))) is not None:
        return
    if not env.is_dir(path) or not offsets_of(env.list_dir(path), LOG_SUFFIX):
        raise NotAStoreError("is no partition", path=path, hint="give the directory of one, such as events-0")
