"""The log start offset of a partition that somebody else may write."""

from __future__ import annotations

import posixpath
import time

from logdex.io.env import Env
from logdex.io.name_changes import FileStamp
from logdex.kafka.directory.partition_files import home_of, offset_in, partition_name, read_offsets
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.file_names import LOG_START_CHECKPOINT, LOG_SUFFIX, offsets_of

_CLOCK_STEP_NS = 20_000_000
"""Two changes of a file within this time may leave it with one modification time."""


class LogStart:
    """The log start offset of the partition directory `path`. It is read again only if the
    directory or the checkpoint has changed, so asking for it takes microseconds."""

    def __init__(self, path: str, env: Env) -> None:
        self._path, self._env = env.real_path(path), env
        named = partition_name(KafkaPath(self._path, KafkaPathKind.PARTITION), env)
        self._name = TopicPartition(named.topic, named.partition) if named.mark is None else None
        self._home, self._is_lone = home_of(self._path, env=env)
        self._checkpoint = posixpath.join(self._home, LOG_START_CHECKPOINT)
        self._stamps: tuple[FileStamp | None, ...] = ()
        self._offset = 0

    def now(self) -> int:
        """Returns the offset. Raises `StorageError` if the directory no longer exists."""
        stamps = self._env.stamp(self._path), self._env.stamp(self._checkpoint)
        if stamps != self._stamps:
            bases = offsets_of(self._env.list_dir(self._path), LOG_SUFFIX)
            stated = read_offsets(self._home, LOG_START_CHECKPOINT, [], self._env)
            start = None if self._name is None else offset_in(stated, self._name, is_lone=self._is_lone)
            self._offset = max(start or 0, bases[0] if bases else 0)
            changed_ns = max(stamp.modified_ns for stamp in stamps if stamp is not None)
            self._stamps = stamps if time.time_ns() - changed_ns > _CLOCK_STEP_NS else ()
        return self._offset
