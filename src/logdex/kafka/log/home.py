"""The clean mark, recovery point and log start offset of a partition: where they are stored.

In a log directory (with ``meta.properties``, a checkpoint or the clean shutdown file) Logdex does
as its broker does. It holds ``.lock``. It removes ``.kafka_cleanshutdown`` when the first partition
is opened, and restores it when the last one is closed, if it existed and nothing failed. The
checkpoints keep the lines of other partitions.

A lone partition directory contains ``.lock`` and the checkpoints itself, under the same names, and
``.logdex-clean`` instead of the clean shutdown file (`logdex.kafka.directory.clean_mark`). Brokers
ignore these files.

Source: Kafka's LogManager.loadLogs, shutdown, checkpointRecoveryOffsetsInDir,
checkpointLogStartOffsetsInDir.
"""

from __future__ import annotations

import posixpath

from logdex import limits
from logdex.errors import CorruptError, UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.kafka.directory.clean_mark import LoneMark, is_closed_cleanly, mark_covers
from logdex.kafka.directory.log_lock import FAILED, MARK, DirectoryLock
from logdex.kafka.directory.partition_files import home_of, offset_in
from logdex.kafka.directory.unfinished import require_published
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint, write_offset_checkpoint
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_dir,
)


def partition_of(path: str, env: Env) -> TopicPartition:
    """Returns the partition whose directory has this path, which may not exist yet. Raises
    `UsageError` if the name is not that of a partition."""
    name = parse_partition_dir(posixpath.basename(env.real_path(path)))
    if name is None or name.mark in ("delete", "stray"):  # the checkpoints name a stray directory's successor
        raise UsageError(
            f"{path}: the name is not that of a partition", hint="name the directory TOPIC-PARTITION, such as events-0"
        )
    return TopicPartition(name.topic, name.partition)


class LogHome:
    """Opened for one partition; holds the lock until `close`. Not thread-safe."""

    def __init__(self, path: str, *, env: Env) -> None:
        self.path = env.real_path(path)
        self.name = partition_of(path, env)
        self.damaged: list[CorruptError] = []
        """Errors in checkpoints. Their offsets then count as 0, as for the broker."""
        self._env = env
        self.directory, self.is_lone = home_of(self.path, env=env)
        require_published(self.path, env)
        self._lock = DirectoryLock(self.directory, env=env, exclusive=self.is_lone)
        try:
            self._lock.claim(self.path)
            with self._lock.guard:
                self.was_clean = self._take_mark()
                self.recovery_point = self._read(RECOVERY_POINT_CHECKPOINT)
                self.log_start_offset = self._read(LOG_START_CHECKPOINT)
        except BaseException:
            self._lock.release()
            raise
        self._good = False

    @property
    def is_own(self) -> bool:
        """Whether this process holds the lock; False in a child that was forked later."""
        return self._lock.is_own

    # -- the clean mark ---------------------------------------------------------------------------
    def _take_mark(self) -> bool:
        """Returns whether the partition was closed cleanly, and removes the mark durably."""
        if self.is_lone:
            return self._take_lone_mark()
        notes = self._lock.notes
        if MARK not in notes:  # this is the first partition of the directory
            path = self._in_directory(CLEAN_SHUTDOWN)
            found = self._env.exists(path)
            notes[MARK] = self._env.read_file(path, limits.CHECKPOINT_FILE_SIZE_BYTES_MAX) if found else None
            self._env.remove(path)
            self._env.sync_dir(self.directory)  # always: a process that removed it may have been killed before its sync
        return notes[MARK] is not None and not notes.get(FAILED) and mark_covers(self.path)

    def _take_lone_mark(self) -> bool:
        path = LoneMark.path_in(self.path)
        if not self._env.exists(path):
            return False
        is_clean = is_closed_cleanly(self.path, env=self._env) is True
        self._env.remove(path)
        self._env.sync_dir(self.directory)
        return is_clean

    def mark_clean(self, active: str, size_bytes: int) -> None:
        """Marks the partition clean: everything is on disk, and the active .log has `size_bytes`
        bytes.

        In a log directory the clean shutdown file is restored when the last partition is closed.
        """
        self._good = True
        if self.is_lone:
            mark = LoneMark(posixpath.basename(active), size_bytes)
            write_atomically(LoneMark.path_in(self.path), mark.to_bytes(), env=self._env)

    def sync_name(self) -> None:
        """Syncs the name of a partition directory without segments.

        Another process may have created it just before it was killed.
        """
        if not any(name.endswith(LOG_SUFFIX) for name in self._env.list_dir(self.path)):
            self._env.sync_dir(posixpath.dirname(self.path))

    # -- checkpoints ------------------------------------------------------------------------------
    def _read(self, name: str) -> int:
        return offset_in(self._entries(name), self.name, is_lone=self.is_lone) or 0

    def _entries(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(self._in_directory(name), env=self._env)
        except CorruptError as error:
            self.damaged.append(error)
            return {}

    def write_recovery_point(self, offset: int) -> None:
        """Records, durably, that every byte and index below `offset` is on disk."""
        self._write(RECOVERY_POINT_CHECKPOINT, offset)

    def write_log_start(self, offset: int | None) -> None:
        """Records the log start offset; None if it is the first segment's, for which the broker
        keeps no line."""
        self._write(LOG_START_CHECKPOINT, offset)

    def read_cleaner_point(self) -> int | None:
        """The offset below which the log is compacted; None if that is unknown."""
        with self._lock.guard:
            return offset_in(self._entries(CLEANER_CHECKPOINT), self.name, is_lone=self.is_lone)

    def write_cleaner_point(self, offset: int) -> None:
        """Records that the log is compacted below `offset`."""
        self._write(CLEANER_CHECKPOINT, offset)

    def truncate_cleaner_point(self, offset: int) -> None:
        """Records, durably, before a truncation, that records at `offset` and above are not
        compacted."""
        point = self.read_cleaner_point()
        if point is not None and point > offset:
            self._write(CLEANER_CHECKPOINT, offset)

    def _write(self, name: str, offset: int | None) -> None:
        with self._lock.guard:
            known = self._entries(name)
            others = {} if self.is_lone else {place: known[place] for place in known if place != self.name}
            entries = others if offset is None else others | {self.name: offset}
            if entries == known:
                return
            write_offset_checkpoint(self._in_directory(name), entries, env=self._env)

    def _in_directory(self, name: str) -> str:
        return posixpath.join(self.directory, name)

    # -- the end ----------------------------------------------------------------------------------
    def close(self) -> None:
        """Releases the lock.

        In a log directory its last holder restores the clean shutdown file, if it existed and every
        partition was closed cleanly.
        """
        if not self._good:
            with self._lock.guard:
                self._lock.notes[FAILED] = True
        self._lock.release()
