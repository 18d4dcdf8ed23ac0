"""Keys without entries in the IndexFiles: whether entries were lost, or a broker wrote none.

A broker writes none while ``messageIndexEnable`` is false. When it starts after a crash, it removes
the IndexFiles that end behind the checkpoint's indexMsgTimestamp, and indexes anew from where one
of the last CommitLog files begins. Neither is damage. A file that anything else removed is told by
what remains:

- The first entry of a file states how long after the end of the file before it its message was
  stored. So it states which file was the newest one when it was created.
- Where it could mean both, or is the first file of all, the number of missing keys decides: those
  of removed files fill whole files, but a broker begins with a message whose keys the full file
  shares once more. What ends where a CommitLog file begins is what a crash leaves.
- Behind the last file, the checkpoint states when the newest full file ended.

Source: ``docs/formats/index-file.md``; IndexService.load, IndexFile.putKey,
CommitLog.recoverAbnormally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.layout.rocketmq import INDEX_HEADER
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.index.index_check import IndexCheck
from logdex.rocketmq.verify.index.log_keys import LogKeys

_LACKS_MAX = 50_000
_END_TIMESTAMP_MS = [field.name for field in INDEX_HEADER.fields].index("end_timestamp_ms")
_SHARED_MAX = 4096
"""How many keys of a message in two files are looked at."""


@dataclass(slots=True)
class _Next:
    """The file that begins behind missing keys."""

    previous_end_ms: int | None
    """When the file before it ended, 0 without one, None if it is not known."""
    time_diff_s: int
    """What its first entry states."""
    begin_ms: int
    """The store time of its first message."""
    begin_offset: int
    """The physical offset of that message."""
    shared: int
    """How many of its first entries are of that message."""
    end_ms: int
    """The time of its last entry."""


@dataclass(slots=True)
class _Lack:
    """Keys without entries: those of messages from `start` to `end` (physical offsets, both
    inclusive), and the place where their entries should be."""

    path: str
    position: int
    start: int
    end: int
    begin_ms: int
    """The store time of the first of these messages."""
    end_ms: int
    """The store time of the last one."""
    keys: int
    is_within: bool
    """Whether they lie within a file, or behind one that has room: no file can hold them."""
    next: _Next | None
    """The file before whose first entry they lie."""


class KeyRange(NamedTuple):
    """Consecutive keys: the physical offsets and store times of the messages of the first one and
    the last one, and their number."""

    first_offset: int
    last_offset: int
    first_ms: int
    last_ms: int
    number: int

    @staticmethod
    def of(keys: LogKeys, start: int, end: int) -> KeyRange:
        """The keys [start, end) of a window."""
        offsets = int(keys.offset[start]), int(keys.offset[end - 1])
        times = int(keys.store_ms[start]), int(keys.store_ms[end - 1])
        return KeyRange(*offsets, *times, end - start)

    def extended(self, behind: KeyRange) -> KeyRange:
        """Returns these keys with those behind them."""
        number = self.number + behind.number
        return self._replace(last_offset=behind.last_offset, last_ms=behind.last_ms, number=number)


class KeysWithoutEntries:
    """Collects the missing keys of a store, in order. Not thread-safe."""

    def __init__(self, root: str, config: StoreConfig, log: CommitLog, out: Collector, env: Env) -> None:
        self._root = root
        self._config = config
        self._log = log
        self._out = out
        self._env = env
        self._lacks: list[_Lack] = []
        self._newest_ms = 0

    def add(self, keys: KeyRange, check: IndexCheck) -> None:
        """Notes that keys have no entry before the next entry of `check`."""
        position = check.disk.position(check.next)
        if self._goes_on(keys, check.disk.path, position):
            return
        following = None
        if check.next == 1:
            rows = check.disk.rows(1, _SHARED_MAX)
            begin_offset = int(rows.phy_offset[0])
            following = _Next(
                check.begin_ms,
                int(rows.time_diff_s[0]),
                check.disk.header[0],
                begin_offset,
                int((rows.phy_offset == begin_offset).sum()),
                check.disk.header[_END_TIMESTAMP_MS],
            )
        self._append(keys, (check.disk.path, position), following is None, following)

    def saw(self, end_ms: int) -> None:
        """Notes that a file ends with an entry of this time."""
        self._newest_ms = max(self._newest_ms, end_ms)

    def add_behind(self, keys: KeyRange, directory: str, *, has_room: bool) -> None:
        """Notes that keys have no entry and no file is behind them. `has_room` is whether the last
        file has room for further entries."""
        if not self._goes_on(keys, directory, 0):
            self._append(keys, (directory, 0), has_room, None)

    def _goes_on(self, keys: KeyRange, path: str, position: int) -> bool:
        last = self._lacks[-1] if self._lacks else None
        if last is None or (last.path, last.position) != (path, position):
            return len(self._lacks) >= _LACKS_MAX
        last.end, last.end_ms = keys.last_offset, keys.last_ms
        last.keys += keys.number
        return True

    def _append(self, keys: KeyRange, place: tuple[str, int], is_within: bool, following: _Next | None) -> None:
        self._lacks.append(_Lack(*place, *keys, is_within, following))

    # -- what they mean ---------------------------------------------------------------------------
    def report(self, *, is_unclean: bool) -> None:
        """Reports them: as findings if entries were lost. After an unclean end they are to be
        expected."""
        for lack in self._lacks:
            text = (
                f"{counted(lack.keys, 'key', 'keys')} of messages from physical offset {lack.start} to {lack.end} "
                f"{'has' if lack.keys == 1 else 'have'} no entry"
            )
            if is_unclean:
                self._out.info("index-missing-range", lack.path, text)
            elif not self._is_lost(lack):
                text += ": none were written then (messageIndexEnable=false), the index is older than the log, or a "
                text += "broker removed an IndexFile when it started after a crash; queries by key do not find these "
                text += f"messages: {self._out.rebuild} writes the entries"
                self._out.info("index-not-written", lack.path, text)
            else:
                self._out.find(
                    "index-missing-range",
                    lack.path,
                    lack.position,
                    text,
                    expected=counted(lack.keys, "entry", "entries"),
                    found="none here",
                    mend=self._out.rebuild,
                    about=lack.start if lack.start == lack.end else None,
                )

    def _is_lost(self, lack: _Lack) -> bool:
        """Whether a file that held the entries is gone, and no broker removed it."""
        if lack.is_within:
            return False
        following = lack.next
        if following is None:
            flushed_ms = self._flushed_ms()  # of a file that expired, if it ended before these messages
            return flushed_ms > self._newest_ms and flushed_ms >= lack.begin_ms
        if lack.end_ms > following.end_ms:
            return False  # the clock was set back, so a broker may have removed the file and kept the next
        if not self._names_previous(lack, following):
            return True
        if not self._names_lost(lack, following):
            return False
        return self._fills_files(lack, following) and not self._ends_with_a_log_file(lack, following)

    def _names_previous(self, lack: _Lack, following: _Next) -> bool:
        """Whether the next file was created when the file that is before it was the newest one."""
        stated, previous = following.time_diff_s, following.previous_end_ms
        if previous is not None:
            return stated == _time_diff_s(following.begin_ms, previous)
        # The files before it may have expired, as the log before has, but not one with these keys.
        return stated == 0 or following.begin_ms - 1000 * (stated + 1) < lack.begin_ms

    @staticmethod
    def _names_lost(lack: _Lack, following: _Next) -> bool:
        """Whether the next file can have been created behind one that held the last missing key, or
        some keys of its own first message."""
        stated = following.time_diff_s
        return stated in (0, _time_diff_s(following.begin_ms, lack.end_ms))

    def _fills_files(self, lack: _Lack, following: _Next) -> bool:
        """Whether the missing keys fill whole IndexFiles; the slot for entry 0 stays empty. The
        last of those may also have held keys that the next file has once more."""
        room = self._config.max_index_num - 1
        return -lack.keys % room <= following.shared

    def _ends_with_a_log_file(self, lack: _Lack, following: _Next) -> bool:
        return any(lack.end < file.start_offset <= following.begin_offset for file in self._log.files)

    def _flushed_ms(self) -> float:
        """Returns when the newest IndexFile ended that a broker filled and flushed, as the
        checkpoint states; infinity if it cannot be read."""
        try:
            return StoreCheckpoint.read(StorePaths(self._root).checkpoint, env=self._env).index_msg_timestamp_ms
        except StoreError:
            return float("inf")


def _time_diff_s(store_ms: int, begin_ms: int) -> int:
    """Returns the timeDiff of an entry in a file that begins at `begin_ms`, 0 if that is not
    known."""
    return min(max((store_ms - begin_ms) // 1000, 0), (1 << 31) - 1) if begin_ms > 0 else 0
