"""Whether a partition was closed cleanly: what the mark of its log directory, or its own, says of it.

A broker leaves ``.kafka_cleanshutdown`` in a log directory when it has closed every log there. `Log` leaves
``.logdex-clean`` in a lone partition directory: the name and the size of the active segment, so that the mark says
nothing any more once somebody else has written there.

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
    """The mark of a lone partition directory: the active segment's .log by name, and its size."""

    active: str
    size_bytes: int

    def to_bytes(self) -> bytes:
        """The file's bytes."""
        return f"{self.active} {self.size_bytes}\n".encode("ascii")

    @staticmethod
    def path_in(directory: str) -> str:
        """Where the mark of the partition in `directory` lies."""
        return posixpath.join(directory, LONE_CLEAN_MARK)


def is_shut_down_cleanly(log_directory: str, *, env: Env) -> bool:
    """Whether a log directory has the mark of a clean shutdown: False after a crash and while a broker runs."""
    return env.exists(posixpath.join(log_directory, CLEAN_SHUTDOWN))


def is_closed_cleanly(directory: str, *, env: Env) -> bool | None:
    """Whether the partition in `directory` was closed cleanly; None where nothing says: a lone partition without a
    mark, or with one that is older than its last segment. See `mark_covers` for the quorum's own log."""
    path = env.real_path(directory)
    home, is_lone = home_of(path, env=env)
    if not mark_covers(path):
        return False
    if not is_lone:
        return is_shut_down_cleanly(home, env=env)
    return True if _lone_mark_holds(path, env) else None


def mark_covers(directory: str) -> bool:
    """Whether a mark speaks for the partition in `directory`, a real path. It does not for the quorum's own log: a
    broker that shuts down neither trims its indexes nor adds the last time entry, and never loads it as closed."""
    return posixpath.basename(directory) != _QUORUM_LOG


def _lone_mark_holds(directory: str, env: Env) -> bool:
    mark = LoneMark.path_in(directory)
    bases = offsets_of(env.list_dir(directory), LOG_SUFFIX)
    if not bases or not env.is_file(mark):
        return False
    active = offset_file_name(bases[-1], LOG_SUFFIX)
    size = env.size_bytes(posixpath.join(directory, active))
    return env.read_file(mark, limits.CHECKPOINT_FILE_SIZE_BYTES_MAX) == LoneMark(active, size).to_bytes()
