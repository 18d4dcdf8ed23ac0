"""One IndexFile against the keys that it holds: links, times, slots, header as they follow from the entries in order.

Where an entry was harmed, what it should be is taken instead of what it is: so one harmed byte is one finding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from logdex.kernels.rocketmq.index_links import index_links
from logdex.layout.rocketmq import INDEX_HEADER
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.verify.index_disk import IndexDisk, IndexRows
from logdex.rocketmq.verify.report import Collector

_INT_MAX = (1 << 31) - 1
_SLOTS_CHUNK = 1 << 20
TimeSuspect = Callable[[int, int, int], None]
"""Called with (physical offset, storeTimestamp, seconds that all its entries are off) of a message."""


class IndexFold:
    """Takes the entries of one file in order. `begin_ms` is the end timestamp of the file before, 0 without one, None
    if not known. One thread."""

    def __init__(
        self, disk: IndexDisk, begin_ms: int | None, dialect: Dialect, out: Collector, suspect: TimeSuspect
    ) -> None:
        self.disk = disk
        self.next = 1
        self.end_ms: int | None = None
        """storeTimestamp of the last entry's message; None if not known."""
        self._begin_ms = begin_ms
        self._first_ms: int | None = None
        self._is_begin_sure = False
        self._first_offset = 0
        self._last_offset = 0
        self._dialect = dialect
        self._out = out
        self._suspect = suspect
        self._slots = np.zeros(disk.slot_num, np.int32)
        self._fresh = 0

    def forget_begin(self) -> None:
        """Keys are lacking before the file's first entry: what its time was counted from is not known."""
        self._begin_ms = None

    def put(
        self,
        rows: IndexRows,
        key_hash: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        store_ms: npt.NDArray[np.int64] | None,
    ) -> None:
        """Takes entries as they are, with what their hash, offset and store time should be (None: not known)."""
        if not len(key_hash):
            return
        previous = np.empty(len(key_hash), np.int32)
        self._fresh += index_links(np.ascontiguousarray(key_hash), rows.first, self._slots, previous)
        for i in self._out.some("index-link", np.flatnonzero(previous != rows.previous_index)):
            self._out.find(
                "index-link",
                self.disk.path,
                self.disk.position(rows.first + i, "previous_index"),
                f"entry {rows.first + i} does not name the one before it in its slot",
                expected=int(previous[i]),
                found=int(rows.previous_index[i]),
                mend=self._out.rebuild,
            )
        known = np.ones(len(key_hash), np.bool_) if store_ms is not None else np.zeros(len(key_hash), np.bool_)
        times = store_ms if store_ms is not None else np.zeros(len(key_hash), np.int64)
        if rows.first == 1:
            self._first_offset = int(offsets[0])
            if store_ms is not None:
                self._first_ms = int(times[0])
                self._check_times(rows.part(0, 1), offsets[:1], times[:1], known[:1], self._begin_ms)
        if store_ms is not None:
            begin = self._begin_for(rows, offsets, times)
            at = 1 if rows.first == 1 else 0
            self._check_times(rows.part(at, len(key_hash)), offsets[at:], times[at:], known[at:], begin)
        self.next += len(key_hash)
        self._last_offset = int(offsets[-1])
        self.end_ms = int(times[-1]) if known[-1] else None

    def chain_score(self, rows: IndexRows, key_hash: int) -> int:
        """How many of the links to and from the first of `rows` (those behind it are the look-ahead) fit a hash."""
        slot = (key_hash & 0x7FFFFFFF) % self.disk.slot_num
        score = int(int(self._slots[slot]) == int(rows.previous_index[0]))
        named_by = np.flatnonzero(rows.previous_index[1:] == rows.first)
        if len(named_by):
            behind = int(rows.key_hash[1 + int(named_by[0])]) & 0x7FFFFFFF
            return score + int(behind % self.disk.slot_num == slot)
        return score + int(int(self.disk.slots[slot]) == rows.first)

    def _begin_for(self, rows: IndexRows, offsets: npt.NDArray[np.int64], store_ms: npt.NDArray[np.int64]) -> int:
        """The time that entries are counted from: the first message's, unless other messages side with the header."""
        stated_ms, first_ms = self.disk.header[0], self._first_ms
        if first_ms is None:
            return stated_ms
        others = offsets != self._first_offset
        if first_ms == stated_ms or self._is_begin_sure or not others.any():
            return first_ms
        self._is_begin_sure = True
        found = rows.time_diff_s[others]
        stated_misfits = int((_time_diffs_s(store_ms[others], stated_ms) != found).sum())
        if stated_misfits >= int((_time_diffs_s(store_ms[others], first_ms) != found).sum()):
            return first_ms
        self._suspect(self._first_offset, first_ms, (stated_ms - first_ms) // 1000)
        self._first_ms = None
        return stated_ms

    def _check_times(
        self,
        rows: IndexRows,
        offsets: npt.NDArray[np.int64],
        store_ms: npt.NDArray[np.int64],
        known: npt.NDArray[np.bool_],
        begin_ms: int | None,
    ) -> None:
        """Compares timeDiff; a message all of whose entries (two or more) disagree is itself what is wrong."""
        if begin_ms is None:
            return
        expected = _time_diffs_s(store_ms, begin_ms)
        wrong = np.flatnonzero(expected != rows.time_diff_s)
        if not len(wrong):
            return
        if self._out.is_full:
            self._out.truncated += len(wrong)
            return
        for offset in np.unique(offsets[wrong]).tolist():
            all_of_it = np.flatnonzero(offsets == offset)
            of_it = wrong[offsets[wrong] == offset]
            off_by = rows.time_diff_s[of_it] - expected[of_it]
            if len(all_of_it) > 1 and len(of_it) == len(all_of_it) and (off_by == off_by[0]).all():
                self._suspect(int(offset), int(store_ms[of_it[0]]), int(off_by[0]))
                known[all_of_it] = False
                continue
            for i in of_it.tolist():
                self._out.find(
                    "index-entry-time",
                    self.disk.path,
                    self.disk.position(rows.first + i, "time_diff_s"),
                    f"timeDiff of entry {rows.first + i} is not that of its message at {offset}",
                    expected=int(expected[i]),
                    found=int(rows.time_diff_s[i]),
                    mend=self._out.rebuild,
                    about=int(offset),
                )

    def finish(self) -> None:
        """All entries are in: compares slots and header, notes what lies behind the entries."""
        disk = self.disk
        for at in range(0, disk.slot_num, _SLOTS_CHUNK):
            found, expected = disk.slots[at : at + _SLOTS_CHUNK], self._slots[at : at + _SLOTS_CHUNK]
            for i in self._out.some("index-slot", np.flatnonzero(found != expected)):
                self._out.find(
                    "index-slot",
                    disk.path,
                    disk.slot_position(at + i),
                    f"slot {at + i} does not name its newest entry",
                    expected=int(expected[i]),
                    found=int(found[i]),
                    mend=self._out.rebuild,
                )
        if disk.stray is not None:
            self._out.find(
                "index-stray-bytes",
                disk.path,
                disk.first_byte(disk.stray),
                "not zero, behind the last entry",
                expected="zeros",
                found="other bytes",
                mend="nothing: no broker reads it, the next entry overwrites it",
            )
        for field, wanted, stated in self._header_differs():
            about = {"begin_timestamp_ms": self._first_offset, "end_timestamp_ms": self._last_offset}.get(field)
            self._out.find(
                "index-header",
                disk.path,
                INDEX_HEADER.offset_of(field),
                f"the header's {field} does not tell of the entries",
                expected=wanted,
                found=stated,
                mend=f"{self._out.rebuild}; --rocketmq-version if only hash_slot_count differs in every file",
                about=about,
            )

    def _header_differs(self) -> list[tuple[str, object, int]]:
        header = self.disk.header
        if self.next == 1:
            return [] if header[5] in (0, 1) else [("index_count", "0 or 1", header[5])]
        slot_count = self.next - 1 if self._dialect.slot_count_every_put else self._fresh
        wanted = (self._first_ms, self.end_ms, self._first_offset, self._last_offset, slot_count, self.next)
        names = [field.name for field in INDEX_HEADER.fields]
        return [
            (name, want, found)
            for name, want, found in zip(names, wanted, header, strict=True)
            if want is not None and want != found
        ]


def _time_diffs_s(store_ms: npt.NDArray[np.int64], begin_ms: int) -> npt.NDArray[np.int64]:
    """`derive_index.time_diff_s` of many."""
    if begin_ms <= 0:
        return np.zeros(len(store_ms), np.int64)
    with np.errstate(over="ignore"):
        return np.asarray(np.clip((store_ms - np.int64(begin_ms)) // 1000, 0, _INT_MAX), np.int64)
