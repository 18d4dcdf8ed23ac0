"""Whether a partition was closed cleanly, according to the mark in its log directory or in its own
directory.

A broker writes ``.kafka_cleanshutdown`` into a log directory when it has closed every log there.
`Log` writes ``.logdex-clean`` into a partition directory that belongs to no log directory. This
file holds the name and the size of the active segment, so the mark is no longer valid once another
program has written to the log.

Source: Kafka's LogManager.loadLogs, CleanShutdownFileHandler, KafkaMetadataLog.
"""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from logdex import limits
from logdex.io.env import Env
from logdex.kafka.directory.partition_files import home_of
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, LOG_SUFFIX, LONE_CLEAN_MARK, offset_file_name, offsets_of
from logdex.kafka.internal_topics import cluster_metadata

_QUORUM_LOG = f"{cluster_metadata.TOPIC}-0"


class LoneMark(NamedTuple):
    """The clean mark of a partition directory outside any log directory: the name of the active
    segment's .log, and its size in bytes."""

    active: str
    size_bytes: int

    def to_bytes(self) -> bytes:
        """Returns the content of the mark's file."""
        return f"{self.active} {self.size_bytes}\n".encode("ascii")

    @staticmethod
    def path_in(directory: str) -> str:
        """Returns the path of the mark for the partition in `directory`."""
        return posixpath.join(directory, LONE_CLEAN_MARK)


def is_shut_down_cleanly(log_directory: str, *, env: Env) -> bool:
    """Whether a log directory has the mark of a clean shutdown. It has none after a crash or while
    a broker runs."""
    return env.exists(posixpath.join(log_directory, CLEAN_SHUTDOWN))


def is_closed_cleanly(directory: str, *, env: Env) -> bool | None:
    """Whether the partition in `directory` was closed cleanly.

    Returns None where this is unknown: the partition is outside any log directory and has no mark,
    or its mark is older than its last segment. Returns False for the partition of
    `__cluster_metadata`, see `mark_covers`.
    """
    path = env.real_path(directory)
    home, is_lone = home_of(path, env=env)
    if not mark_covers(path):
        return False
    if not is_lone:
        return is_shut_down_cleanly(home, env=env)
    return True if _lone_mark_holds(path, env) else None


def mark_covers(directory: str) -> bool:
    """Whether a clean mark is valid for the partition in `directory`, which must be a real path.

    It is not valid for the partition of `__cluster_metadata`: at shutdown a broker neither trims
    the indexes of this log nor adds its last time index entry, and at startup it always recovers it
    as after a crash.
    """
    return posixpath.basename(directory) != _QUORUM_LOG


def _lone_mark_holds(directory: str, env: Env) -> bool:
    mark = LoneMark.path_in(directory)
    bases = offsets_of(env.list_dir(directory), LOG_SUFFIX)
    if not bases or not env.is_file(mark):
        return False
    active = offset_file_name(bases[-1], LOG_SUFFIX)
    size = env.size_bytes(posixpath.join(directory, active))
    return env.read_file(mark, limits.CHECKPOINT_FILE_SIZE_BYTES_MAX) == LoneMark(active, size).to_bytes()
