"""Compares a sparse index with its log: every entry must be one that a broker could have written.

Which batches have an entry depends on when the broker was restarted. Therefore an index may differ
from the one that a recovery would write, as long as its entries are right. Entries about bytes or
offsets that were lost are not judged.

Brokers from 3.9.1 on, except 4.0.0, make an entry for a batch; older ones make it for an append,
which may have several batches. A broker is upgraded at any time, so a log has entries of both
kinds, even in one index. What an older broker could have written is decided entry by entry, and
only for those that do not fit the newer rule.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.io.mapped.mapping import find_unreadable
from logdex.kafka.scan.scanner import BatchWindow
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.segment.segment_pass import SegmentPass
from logdex.layout.base import Layout

_STEP_ENTRIES = 1 << 16
_LOOKS = 3
"""How often an index is read. A broker that stops trims its indexes, and preallocates them again
when it starts; what was cut off while it was read can be read then."""


class IndexEntries(ABC):
    """The entries of one index file, which are compared with the log's batches window by window.
    Call `add` per window, then `finish`. Not thread-safe."""

    layout: ClassVar[Layout]
    prefix: ClassVar[str]

    def __init__(self, path: str, base_offset: int, out: Collector, env: Env) -> None:
        self.path = path
        self.base_offset = base_offset
        self.is_missing = not env.exists(path)
        self.is_unreadable = False
        self.has_odd_size = False
        self.older_entries = np.empty(0, np.intp)
        """After `finish`: the right entries that only a broker before 3.9.1, or 4.0.0, writes."""
        self._out = out
        self._raw: npt.NDArray[Any] = np.empty(0, self.layout.dtype)
        self.zero_slots = 0
        if not self.is_missing:
            try:
                self._load(env)
            except UnreadableError as error:
                self._leave(error)
        self._judged = np.zeros(len(self._raw), np.bool_)
        self._true = np.zeros(len(self._raw), np.bool_)
        self._older = np.zeros(len(self._raw), np.bool_)

    def _load(self, env: Env) -> None:
        self._out.files += 1
        with env.open_read(self.path) as file:
            size = file.size_bytes
        slot = self.layout.size_bytes
        if size > limits.INDEX_SIZE_BYTES_MAX:
            self.is_unreadable = True
            self._find("size", limits.INDEX_SIZE_BYTES_MAX, "too large for an index", "an index's size", size)
            return
        self.has_odd_size = size % slot != 0
        if self.has_odd_size:
            whole = size // slot * slot
            self._find(
                "size", whole, f"{size - whole} bytes behind the last whole entry", f"a multiple of {slot}", size
            )
        for _ in range(_LOOKS):
            array = env.map_read(self.path).array
            size = min(size, array.size)  # it may have been truncated meanwhile
            slots = array[: size // slot * slot].view(self.layout.dtype)
            count = self._entries_in(slots)
            raw = slots[:count].copy()
            error = find_unreadable(array, 0, size)
            if error is None or error.size_bytes is not None:
                break
        else:
            assert error is not None
            self._leave(error)
            return
        if error is not None and error.size_bytes is not None:  # a broker trims an index that it has finished
            slots, raw = slots[: error.size_bytes // slot], raw[: error.size_bytes // slot]
        self.zero_slots = len(slots) - len(raw)
        self._raw = raw

    def _entries_in(self, slots: npt.NDArray[Any]) -> int:
        """Returns how many of a file's slots are entries."""
        return _used_slots(slots)

    def _leave(self, error: UnreadableError) -> None:
        """Reports a file that cannot be read."""
        self.is_unreadable = True
        self._out.find_error("unreadable", error, self._out.rebuild)

    @property
    def is_whole(self) -> bool:
        """Whether there is a file that could be read and ends with a whole entry."""
        return not (self.is_missing or self.is_unreadable or self.has_odd_size)

    @property
    def count(self) -> int:
        """The number of entries, without the zeros that may follow them."""
        return len(self._raw)

    def used_bytes(self) -> bytes:
        """Returns the bytes of the entries."""
        return self._raw.tobytes()

    def offsets(self) -> npt.NDArray[np.int64]:
        """Returns the absolute offset of each entry."""
        return self._raw["relative_offset"].astype(np.int64) + self.base_offset

    def _judge(self, places: npt.NDArray[np.intp], is_true: npt.NDArray[np.bool_]) -> None:
        self._judged[places] = True
        self._true[places] = is_true

    @abstractmethod
    def add(self, window: BatchWindow) -> None:
        """Compares the entries that fall into a window with its batches."""

    def finish(self, scanned: SegmentPass) -> None:
        """Judges the entries that fell into no window, because they match no batch or because their
        batch was lost. Then checks that the entries rise, and closes the file."""
        rest = np.flatnonzero(~self._judged)
        if len(rest):
            self._judge_rest(rest, scanned)
        self._check_order()
        self.older_entries = np.flatnonzero(self._older & self._true)
        self._raw = self._raw[:0]

    @abstractmethod
    def _judge_rest(self, rest: npt.NDArray[np.intp], scanned: SegmentPass) -> None: ...

    def _check_order(self) -> None:
        """Reports right entries that do not rise, because they are repeated or misplaced."""
        true = np.flatnonzero(self._true)
        for place in np.flatnonzero(np.diff(self._rising()[true]) <= 0).tolist():
            before = self._raw[self.layout.fields[0].name][true[place]]
            at = int(true[place + 1])
            self._find_entry("order", at, "the entry is not above the one before it", f"above {before}")

    @abstractmethod
    def _rising(self) -> npt.NDArray[np.int64]:
        """Returns the number of each entry that must be above that of the entry before it."""

    def _values(self, place: int) -> str:
        return f"({', '.join(str(int(value)) for value in self._raw[place].item())})"

    def _find_entry(self, what: str, place: int, message: str, expected: object) -> None:
        where = place * self.layout.size_bytes
        self._find(what, where, f"entry {place}: {message}", expected, self._values(place))

    def _find(self, what: str, position: int, message: str, expected: object, found: object) -> None:
        mend = self._out.rebuild
        check = f"{self.prefix}-{what}"
        self._out.find(check, self.path, position, message, expected=expected, found=found, mend=mend)

    def _some(self, what: str, places: npt.NDArray[np.intp]) -> list[int]:
        return self._out.some(f"{self.prefix}-{what}", places)


def _used_slots(slots: npt.NDArray[Any]) -> int:
    """Returns the number of slots up to the last one that is not all zeros. It searches backwards
    in steps, because a preallocated index is mostly zeros."""
    end = len(slots)
    while end:
        start = max(end - _STEP_ENTRIES, 0)
        part = slots[start:end].view(np.uint8).reshape(end - start, -1)
        used = np.flatnonzero(part.any(axis=1))
        if len(used):
            return start + int(used[-1]) + 1
        end = start
    return 0


def lost_offsets(offsets: npt.NDArray[np.int64], scanned: SegmentPass) -> npt.NDArray[np.bool_]:
    """Returns a mask of the offsets that were lost with damaged bytes of the log."""
    lost = np.zeros(len(offsets), np.bool_)
    for hole in scanned.holes:
        lost |= (offsets >= hole.first_offset) & (offsets < hole.next_offset)
    return lost
