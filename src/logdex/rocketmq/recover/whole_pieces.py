"""Finds every whole message of a log: pieces of CommitLog files, and all bytes between them.

A piece is a run of adjacent whole messages, each of which stores the physical offset at which it
lies. Where reading goes on behind damage is decided as for all readers
(`logdex.rocketmq.scan.resume`, ``docs/design/0014-behind-damage.md``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.io.mapped.mapping import take_unreadable
from logdex.layout.rocketmq import BLANK, MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.scan.log_bytes import LogBytes, data_end_of
from logdex.rocketmq.scan.property_check import wrong_property_crcs
from logdex.rocketmq.scan.resume import Named, find_behind
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig

OnRead = Callable[[int, int], None]
"""Called with the numbers of further (messages, bytes) that were read."""

ELSEWHERE = "a message that says that it lies elsewhere"
_WRONG_PROPERTY = "a message whose property __CRC32# is wrong"
_TOO_LONG = "behind the length that a file of this log has"


class Piece(NamedTuple):
    """Whole messages in bytes [start, end) of a file. `last_at` is the position of the last one,
    and the times are the store times of the first and the last one."""

    start: int
    end: int
    messages: int
    last_at: int
    first_ms: int
    last_ms: int


class Dropped(NamedTuple):
    """Bytes [start, end) of a file that are no whole message of the log. `is_zero` states whether
    they are zeros up to the end of the file, `is_torn` whether they begin a message that was cut
    off."""

    start: int
    end: int
    why: str
    is_zero: bool = False
    is_torn: bool = False


@dataclass(slots=True)
class ScannedFile:
    """A CommitLog file of the new log's physical offsets [`start_offset`, + the size of a file),
    with its pieces and what lies between them. `filler_at` is the position of its filler, None if
    none was found. `source` is None if the old log has no such file, for the reason `why_missing`.
    `has_expired` states that a broker has removed the file, and all before it, before it was
    read."""

    path: str
    start_offset: int
    source: CommitLogFile | None = None
    pieces: list[Piece] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)
    filler_at: int | None = None
    why_missing: str = "the file is missing"
    has_expired: bool = False
    newest_ms: int = 0
    """The greatest store time of a message of its pieces."""

    def drop(self, start: int, end: int, why: str, *, is_zero: bool = False, is_torn: bool = False) -> None:
        """Adds a range without a message. Joins it with the one before it if that is of the same
        kind."""
        if start == end:
            return
        before = self.dropped[-1] if self.dropped else None
        if before is not None and (before.end, before.why, before.is_zero) == (start, why, is_zero):
            start = self.dropped.pop().start
        self.dropped.append(Dropped(start, end, why, is_zero, is_torn))


class LogScan:
    """Scans the files of a log one by one. Memory depends on the window and the number of pieces.
    Not thread-safe."""

    def __init__(self, config: StoreConfig, env: Env, named: Named | None, on_read: OnRead) -> None:
        self._size = config.mapped_file_size_commit_log
        self._scanner = Scanner(config, env=env, unreadable_is_damage=True)
        self._env = env
        self._named = named
        self._on_read = on_read

    def scan(self, scanned: ScannedFile) -> None:
        """Finds the pieces of a file and fills in `scanned`."""
        file = scanned.source
        assert file is not None  # missing files are not scanned
        position: int | None = 0
        while position is not None:
            end = self._run(scanned, file, position)
            at = self._scanner.stopped_at if end is None else end.position
            if end is None or self._is_harmed_filler(file, end):
                is_filler = min(file.size_bytes, self._size) - at >= BLANK.size_bytes
                scanned.filler_at = at if is_filler else None
                break
            position = self._behind(scanned, file, end)
            self._on_read(0, (min(file.size_bytes, self._size) if position is None else position) - at)
        if file.size_bytes > self._size:
            self._drop_rest(scanned, file)

    def _run(self, scanned: ScannedFile, file: CommitLogFile, position: int) -> LogEnd | None:
        """Takes the messages from a position on, up to the first damage, whose place is
        returned."""
        scanning = self._scanner.scan_file(file, position, min(file.size_bytes, self._size))
        while True:
            try:
                window = next(scanning)
            except StopIteration as stop:
                end: LogEnd | None = stop.value
                return end
            self._take(scanned, window)
            self._on_read(window.count, int(window.columns.size[: window.count].sum()))

    def _take(self, scanned: ScannedFile, window: Window) -> None:
        columns, count = window.columns, window.count
        starts = columns.position[:count] - scanned.start_offset
        ends = starts + columns.size[:count]
        is_here = columns.stored_offset[:count] == columns.position[:count]
        is_right = ~wrong_property_crcs(window)
        is_good = is_here & is_right & (ends <= self._size)
        cuts = [0, *(np.flatnonzero(np.diff(is_good)) + 1).tolist(), count]
        for first, behind in pairwise(cuts):
            if is_good[first]:
                self._put(scanned, window, starts, ends, slice(first, behind))
                continue
            for i in range(first, behind):
                why = _TOO_LONG if ends[i] > self._size else _WRONG_PROPERTY if is_here[i] else ELSEWHERE
                scanned.drop(int(starts[i]), min(int(ends[i]), self._size), why)

    @staticmethod
    def _put(
        scanned: ScannedFile, window: Window, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], part: slice
    ) -> None:
        times = window.columns.store_timestamp_ms[part]
        scanned.newest_ms = max(scanned.newest_ms, int(np.max(times)))
        start, end, last = int(starts[part][0]), int(ends[part][-1]), int(starts[part][-1])
        piece = Piece(start, end, part.stop - part.start, last, int(times[0]), int(times[-1]))
        before = scanned.pieces[-1] if scanned.pieces else None
        if before is not None and before.end == start:
            scanned.pieces.pop()
            messages = before.messages + piece.messages
            piece = piece._replace(start=before.start, messages=messages, first_ms=before.first_ms)
        scanned.pieces.append(piece)

    def _is_harmed_filler(self, file: CommitLogFile, end: LogEnd) -> bool:
        """Whether the file was read up to a filler whose magic is wrong and whose size is right."""
        left = self._size - end.position
        if left < BLANK.size_bytes or file.size_bytes < self._size or end.is_unreadable:
            return False
        with self._env.open_read(file.path) as opened:
            head = opened.read_at(end.position, BLANK.size_bytes)
        if len(head) < BLANK.size_bytes:
            return False
        size, magic = BLANK.struct.unpack(head)
        return bool(size == left and magic not in (MESSAGE_MAGIC_V1, MESSAGE_MAGIC_V2))

    def _behind(self, scanned: ScannedFile, file: CommitLogFile, end: LogEnd) -> int | None:
        """Returns the position at which to continue behind damage, None if no message follows in
        this file. Notes the bytes in between."""
        at = end.position
        with self._env.map_read(file.path) as mapped:
            data = LogBytes(mapped.array[: self._size], file.start_offset, data_end_of(file.path, at, self._env))
            following = find_behind(data, at, self._named)
            is_zero = following is None and not end.is_unreadable and data.first_nonzero(at) is None
            if end.is_zeros and mapped.array[at : at + BLANK.size_bytes].any():
                return at  # a broker has written there since the scan came to it
            take_unreadable(mapped.array)  # the report tells of them
        size = min(data.size, self._size)
        is_torn = following is None and end.kind is EndKind.TORN
        scanned.drop(at, size if following is None else following, _why(end), is_zero=is_zero, is_torn=is_torn)
        return following

    def _drop_rest(self, scanned: ScannedFile, file: CommitLogFile) -> None:
        """Notes the bytes of a file that is longer than the files of the log."""
        with self._env.map_read(file.path) as mapped:
            is_zero = not mapped.array[self._size :].any()
            is_zero = take_unreadable(mapped.array) is None and is_zero
        if not is_zero:
            scanned.drop(self._size, file.size_bytes, _TOO_LONG)


def _why(end: LogEnd) -> str:
    """Returns in words what is wrong at a place where the scan stopped."""
    if end.is_zeros:
        return "zeros where a message must be"
    assert end.error is not None  # every stop except zeros has an error
    return end.error.description
