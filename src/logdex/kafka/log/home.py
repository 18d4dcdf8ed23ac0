"""Where a partition's clean mark, recovery point and log start are kept: in its log directory; a lone one: in itself.

Within a log directory (one that holds a ``meta.properties``, a checkpoint or the clean-shutdown marker) Logdex does as
its broker does: ``.lock`` is held, ``.kafka_cleanshutdown`` goes when the first partition is opened and comes back when
the last one has been closed, if it was there and nothing failed; the checkpoints keep the lines of other partitions.

A lone partition directory has ``.lock`` and the checkpoints in itself, under the same names, and ``.logdex-clean``
instead of the marker (`logdex.kafka.directory.clean_mark`). A broker reads none of them.

Source: Kafka's LogManager.loadLogs, shutdown, checkpointRecoveryOffsetsInDir, checkpointLogStartOffsetsInDir.
"""

from __future__ import annotations

import errno
import posixpath

from logdex import limits
from logdex.errors import CorruptError, StorageError, UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import Env
from logdex.kafka.directory.clean_mark import LoneMark, is_closed_cleanly, mark_covers
from logdex.kafka.directory.log_lock import DirectoryLock
from logdex.kafka.directory.partition_files import home_of
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint, write_offset_checkpoint
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_dir,
)


def make_dirs_durably(path: str, *, env: Env) -> None:
    """Creates what is missing of the directory `path`: the name of each is on disk before it gets another one in it."""
    missing = []
    while not env.exists(path):
        missing.append(path)
        path = posixpath.dirname(path.rstrip("/")) or "."
    for each in reversed(missing):
        try:
            env.sync_dir(posixpath.dirname(path.rstrip("/")) or posixpath.join(path, ".."))
        except StorageError as error:
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise  # whose parent we may not look into, we have not made
        env.make_dirs(each)
        path = each


class LogHome:
    """Opened for one partition: takes the lock. `close` gives it up. Calls come from one thread at a time."""

    def __init__(self, path: str, *, env: Env) -> None:
        self.path = env.real_path(path)
        name = parse_partition_dir(posixpath.basename(self.path))
        if name is None or name.mark in ("delete", "stray"):  # a stray one has its successor's name in the checkpoints
            raise UsageError(
                f"{path}: not the name of a partition", hint="name the directory TOPIC-PARTITION, such as events-0"
            )
        self.name = TopicPartition(name.topic, name.partition)
        self.damaged: list[CorruptError] = []
        """What was wrong with checkpoints; their offsets then count as 0, as for the broker."""
        self._env = env
        self.directory, self.is_lone = home_of(self.path, env=env)
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
        """Whether this process holds the lock; False in a child that was forked since."""
        return self._lock.is_own

    # -- the clean mark ------------------------------------------------------------------------------------------------
    def _take_mark(self) -> bool:
        """Whether the partition was closed cleanly; the mark is gone from the disk when this returns."""
        if self.is_lone:
            return self._take_lone_mark()
        notes = self._lock.notes
        if "mark" not in notes:  # the first partition of this directory
            path = self._in_directory(CLEAN_SHUTDOWN)
            found = self._env.exists(path)
            notes["mark"] = self._env.read_file(path, limits.CHECKPOINT_FILE_SIZE_BYTES_MAX) if found else None
            self._env.remove(path)
            self._env.sync_dir(self.directory)  # in any case: who removed it may have been killed before this
        return notes["mark"] is not None and not notes.get("failed") and mark_covers(self.path)

    def _take_lone_mark(self) -> bool:
        path = LoneMark.path_in(self.path)
        if not self._env.exists(path):
            return False
        is_clean = is_closed_cleanly(self.path, env=self._env) is True
        self._env.remove(path)
        self._env.sync_dir(self.directory)
        return is_clean

    def mark_clean(self, active: str, size_bytes: int) -> None:
        """Says that everything is on disk: the active segment's .log is `active` of `size_bytes` bytes. In a log
        directory the marker comes back with the last partition's `close`."""
        self._good = True
        if self.is_lone:
            mark = LoneMark(posixpath.basename(active), size_bytes)
            write_atomically(LoneMark.path_in(self.path), mark.to_bytes(), env=self._env)

    def sync_name(self) -> None:
        """For a partition without a segment yet, which another process may have made just before it was killed: the
        name of its directory is on disk when this returns."""
        if not any(name.endswith(LOG_SUFFIX) for name in self._env.list_dir(self.path)):
            self._env.sync_dir(posixpath.dirname(self.path))

    # -- checkpoints ---------------------------------------------------------------------------------------------------
    def _read(self, name: str) -> int:
        return self._entries(name).get(self.name, 0)

    def _entries(self, name: str) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(self._in_directory(name), env=self._env)
        except CorruptError as error:
            self.damaged.append(error)
            return {}

    def write_recovery_point(self, offset: int) -> None:
        """Below `offset` every byte and index is on disk. Durable when this returns."""
        self._write(RECOVERY_POINT_CHECKPOINT, offset)

    def write_log_start(self, offset: int | None) -> None:
        """Where the log begins; None: where its first segment does, which the broker keeps no line for."""
        self._write(LOG_START_CHECKPOINT, offset)

    def read_cleaner_point(self) -> int | None:
        """Up to which offset the log was compacted; None where nothing says so."""
        with self._lock.guard:
            return self._entries(CLEANER_CHECKPOINT).get(self.name)

    def write_cleaner_point(self, offset: int) -> None:
        """Notes that the log is compacted below `offset`."""
        self._write(CLEANER_CHECKPOINT, offset)

    def truncate_cleaner_point(self, offset: int) -> None:
        """Before the log is cut: what comes at `offset` and above is not clean. Durable when this returns."""
        point = self.read_cleaner_point()
        if point is not None and point > offset:
            self._write(CLEANER_CHECKPOINT, offset)

    def _write(self, name: str, offset: int | None) -> None:
        with self._lock.guard:
            entries = self._entries(name)
            if entries.get(self.name) == offset:
                return
            if offset is None:
                del entries[self.name]
            else:
                entries[self.name] = offset
            write_offset_checkpoint(self._in_directory(name), entries, env=self._env)

    def _in_directory(self, name: str) -> str:
        return posixpath.join(self.directory, name)

    # -- the end -------------------------------------------------------------------------------------------------------
    def close(self) -> None:
        """Gives the lock up. In a log directory the last partition puts the clean-shutdown marker back as it was, if it
        was there and every partition was closed cleanly."""
        try:
            with self._lock.guard:
                if not self._good:
                    self._lock.notes["failed"] = True
                mark = self._lock.notes.get("mark")
                if self._lock.is_last and isinstance(mark, bytes) and not self._lock.notes.get("failed"):
                    write_atomically(self._in_directory(CLEAN_SHUTDOWN), mark, env=self._env)
        finally:
            self._lock.release()
