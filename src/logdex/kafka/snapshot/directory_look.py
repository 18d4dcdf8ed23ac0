"""One look at the segments of a partition's directory, and whether they are still there.

A broker removes segments (retention) and replaces them (compaction) while they are read. What was
opened before may then not fit what is opened later.
"""

from __future__ import annotations

import time

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.kafka.files.file_names import LOG_SUFFIX, offsets_of
from logdex.kafka.segment.log_segment import LogSegment

_CLOCK_STEP_NS = 20_000_000
"""Two changes of a directory within this time may leave it with one modification time."""


class DirectoryLook:
    """The `segments` that were found in `directory`, whose modification time before that was
    `modified_ns`. Thread-safe."""

    def __init__(self, directory: str, segments: list[LogSegment], modified_ns: int, env: Env) -> None:
        self.segments = segments
        self._directory = directory
        self._env = env
        self._unchanged_ns = self._reliable(modified_ns)

    def _reliable(self, modified_ns: int) -> int | None:
        return modified_ns if time.time_ns() - modified_ns > _CLOCK_STEP_NS else None

    def _is_there(self, segment: LogSegment) -> bool:
        return self._env.identity(segment.log.path) == segment.log.identity

    def is_outdated(self) -> bool:
        """Whether a segment has been removed or replaced, or the last one cut."""
        try:
            if self._env.modified_ns(self._directory) == self._unchanged_ns:
                return self._is_cut()
        except StorageError:
            return True  # the directory was removed
        return not all(map(self._is_there, self.segments)) or self._is_cut()

    def _is_cut(self) -> bool:
        """Whether the last segment is shorter than it was, as a follower's that follows another
        leader."""
        last = self.segments[-1] if self.segments else None
        try:
            return last is not None and self._env.size_bytes(last.log.path) < last.size_bytes
        except StorageError:
            return True  # it was removed

    def is_mixed(self) -> bool:
        """Whether a segment has been replaced, or one removed or added before another: what was
        read may belong to different states of the log. Retention removes the first segments, which
        leaves what was read of them right."""
        try:
            modified_ns = self._env.modified_ns(self._directory)
            if modified_ns == self._unchanged_ns or not self.segments:
                return False
            bases = offsets_of(self._env.list_dir(self._directory), LOG_SUFFIX)
        except StorageError:
            return False  # the directory was removed, so all of its segments were
        ours = [segment for segment in self.segments if bases and segment.base_offset >= bases[0]]
        last = self.segments[-1].base_offset
        if [segment.base_offset for segment in ours] != [base for base in bases if base <= last]:
            return True
        if not all(map(self._is_there, ours)):
            return True
        self._unchanged_ns = self._reliable(modified_ns) if len(ours) == len(self.segments) else None
        return False
