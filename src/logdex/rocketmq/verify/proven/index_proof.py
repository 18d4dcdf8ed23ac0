"""Holds the keys of windows against the entries of IndexFiles. Links and slots, which depend on all
entries before, are left to the pass."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from logdex.errors import MissingFileError, UnreadableError
from logdex.io.env import Env
from logdex.layout.rocketmq import INDEX_HEADER
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.index.index_check import wrong_times
from logdex.rocketmq.verify.index.index_disk import IndexDisk
from logdex.rocketmq.verify.index.keys_without_entries import KeyRange
from logdex.rocketmq.verify.index.log_keys import LogKeys
from logdex.rocketmq.verify.proven.runs import IndexSpan

_BEGIN_TIMESTAMP_MS = [field.name for field in INDEX_HEADER.fields].index("begin_timestamp_ms")


class IndexProof:
    """Compares IndexFiles for one task. `files` are their paths in order, each with the physical
    offset of its last entry. The owner must call `close`."""

    def __init__(self, files: Sequence[tuple[str, int]], config: StoreConfig, env: Env) -> None:
        self._files = files
        self._config = config
        self._env = env
        self._disk: IndexDisk | None = None
        self._next: int | None = None
        """The number of the entry that belongs to the next key, None if it is not known."""
        self._is_behind = False
        self.differs = False
        """Whether the entries of the last window are those of other keys."""

    def span(self, window: Window) -> tuple[bool, IndexSpan | None]:
        """Returns whether the entries of a window's keys are proven, and their span, None without a
        key. A window whose entries are in two files or at the beginning of one, or are the first
        that lack behind the last file, is not proven here."""
        keys = LogKeys.of(window)
        count = len(keys.offset)
        self.differs = False
        if not count:
            return True, None
        path, at, was_behind = "", 0, self._is_behind
        try:
            path, at = self._place_of(int(keys.offset[0]))
            self._is_behind = not path
            end = self._next = self._next_behind(keys, at) if path else 0
        except (MissingFileError, UnreadableError):
            end = self._next = None
        if end is None or (self._is_behind and not was_behind):
            return False, None
        return True, IndexSpan(path, at, end, KeyRange.of(keys, 0, count))

    def _next_behind(self, keys: LogKeys, at: int) -> int | None:
        """Returns the number of the entry behind those of the keys, if they are those from `at`
        on."""
        disk, count = self._disk, len(keys.offset)
        assert disk is not None  # _place_of opened it
        if not 1 < at <= disk.end - count:
            return None
        rows = disk.rows(at, count)
        if keys.matches(0, rows) < count:
            self.differs = True
            return None
        if wrong_times(self._config, keys.store_ms, disk.header[_BEGIN_TIMESTAMP_MS], rows.time_diff_s):
            return None
        return at + count

    def _place_of(self, offset: int) -> tuple[str, int]:
        """Returns the path of the file with the first entry of the message at a physical offset,
        which is then open, and the number of the entry. The path is empty behind the last file."""
        disk = self._disk
        if disk is not None and self._next is not None and 0 < self._next < disk.end:
            return disk.path, self._next
        path = next((path for path, last in self._files if last >= offset), "")
        if not path:
            return "", 0
        if disk is None or disk.path != path:
            self.close()
            disk = self._disk = IndexDisk(path, self._config, self._env)
        return path, bisect_left(range(disk.end), offset, lo=1, key=disk.offset_of)

    def forget(self) -> None:
        """Has the place of the next key looked up, because keys were left out."""
        self._next = None

    def close(self) -> None:
        """Unmaps the open file."""
        self._next = None
        if self._disk is not None:
            self._disk.close()
            self._disk = None
