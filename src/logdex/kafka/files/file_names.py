"""The names of partition directories and of the files in them.

Source: Kafka's LogFileUtils, UnifiedLog.parseTopicPartitionName.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from logdex.errors import UsageError

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
KEY_INDEX_SUFFIX = ".keyindex"
DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"
OFFSET_DIGITS = 20
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
"""The suffixes of the files that a broker counts to a segment."""

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
LOCK_FILE = ".lock"
LONE_CLEAN_MARK = ".logdex-clean"
"""Logdex's own file: this directory of a single partition was closed cleanly."""
LOG_DIRECTORY_FILES = frozenset(
    (
        META_PROPERTIES,
        CLEAN_SHUTDOWN,
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
        CLEANER_CHECKPOINT,
    )
)
"""The files that a broker keeps beside the partitions of a log directory."""
READERS_DIR = ".logdex-readers"
"""Logdex's own directory in a partition: where named readers are."""
LOST_AND_FOUND = "lost+found"
"""Where `logdex recover` puts batches that it cannot place. Brokers ignore directories in a
partition."""

_OFFSET_FILE = re.compile(rf"(\d{{{OFFSET_DIGITS}}})(\.[a-z.]+)")
_PARTITION_DIR = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d{1,10})")
_TOPIC = re.compile("[a-zA-Z0-9._-]{1,249}")
_MARKED_DIR = re.compile(r"(?P<name>.+)\.(?P<id>[^.\s]+)-(?P<mark>delete|future|stray)")


def offset_file_name(offset: int, suffix: str) -> str:
    """``00000000000000000042.log``: the name of a file with this base or snapshot offset."""
    return f"{offset:0{OFFSET_DIGITS}d}{suffix}"


def parse_offset_file(name: str) -> tuple[int, str] | None:
    """(offset, suffix) of a name that `offset_file_name` makes; None for any other name.

    An offset beyond Java's long also returns None.
    """
    found = _OFFSET_FILE.fullmatch(name)
    if found is None or int(found.group(1)) >= 1 << 63:
        return None
    return int(found.group(1)), found.group(2)


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """The offsets of the files with `suffix` among a directory's `names`, in ascending order."""
    named = (parse_offset_file(name) for name in names)
    return sorted(each[0] for each in named if each is not None and each[1] == suffix)


def require_topic_name(topic: str) -> None:
    """Raises `UsageError` for a name that Kafka takes for no topic (its Topic.validate)."""
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        hint = "Kafka takes letters, digits, '.', '_' and '-', 249 at most"
        raise UsageError(f"{topic[:249]!r} cannot be the name of a topic", hint=hint)


@dataclass(frozen=True, slots=True)
class PartitionName:
    """The parts of a partition directory's name. `mark` is ``delete``, ``future``, ``stray`` or
    None."""

    topic: str
    partition: int
    mark: str | None = None


def parse_partition_dir(name: str) -> PartitionName | None:
    """Parses ``orders-0`` or ``orders-0.<id>-delete``; None if no partition has this name.

    The broker writes ids of 32 hex digits and accepts any.
    """
    marked = _MARKED_DIR.fullmatch(name)
    found = _PARTITION_DIR.fullmatch(marked.group("name") if marked else name)
    if found is None or int(found.group("partition")) > (1 << 31) - 1:
        return None
    return PartitionName(found.group("topic"), int(found.group("partition")), marked.group("mark") if marked else None)
