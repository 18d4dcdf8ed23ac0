"""Compares one IndexFile with the keys that it holds: links, times, slots and header must be those
that `derive_index` computes from the keys in order.

After a damaged entry, the check continues with the values that the entry should have, so that one
damaged byte is one finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from logdex.jobs import look_again
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.index_file.derive import IndexState, IndexWindow, derive_index
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.index.index_disk import IndexDisk, IndexRows

_SLOTS_CHUNK = 1 << 20
_PROVEN_ROWS = 1 << 16
_NEW_ENTRIES_MAX = 100_000
"""How many entries of a chain may have been put while the file was checked."""
TimeSuspect = Callable[[int, int, int], None]
"""Called for a message whose entries all have the same wrong time, with (physical offset,
storeTimestamp in milliseconds, difference in seconds)."""


class _Derived:
    """The header, slots and entries that `derive_index` computes for an IndexFile of `config`, in
    memory."""

    def __init__(self, config: StoreConfig, header: IndexHeader) -> None:
        self._config = config
        self._array = np.zeros(INDEX_HEADER.size_bytes + INDEX_SLOT.size_bytes * config.max_hash_slot_num, np.uint8)
        self._block = np.empty(0, np.uint8)
        self.slots = self._array[INDEX_HEADER.size_bytes :].view(">i4")
        self.state = IndexState(header)

    @property
    def next(self) -> int:
        """The number of the next entry."""
        return int(self.state.values[5])

    def begin_at(self, begin_ms: int) -> None:
        """Sets the time that the times of the next entries are relative to."""
        self.state.values[0] = begin_ms

    def put(
        self, key_hash: npt.NDArray[np.int32], offsets: npt.NDArray[np.int64], store_ms: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.void]:
        """Returns the next entries, one per key. They are valid until the next call."""
        count, size = len(key_hash), INDEX_ENTRY.size_bytes
        if len(self._block) < count * size:
            self._block = np.empty(count * size, np.uint8)
        hashes = key_hash & np.int32(0x7FFFFFFF)  # a damaged entry may have a negative hash, a key has none
        ends = np.arange(1, count + 1, dtype=np.int32)
        window = IndexWindow(np.ascontiguousarray(offsets), np.ascontiguousarray(store_ms), ends, hashes)
        self.state.place = 0, 0
        derive_index(self._array, self._block, self._config, window, self.state, self.next + count, skip_known=False)
        return self._block[: count * size].view(INDEX_ENTRY.dtype)


def wrong_times(
    config: StoreConfig, store_ms: npt.NDArray[np.int64], begin_ms: int, found: npt.NDArray[np.int32]
) -> int:
    """Returns how many of the times in `found`, of entries behind the first one, differ from those
    derived with `begin_ms`."""
    trial = _Derived(replace(config, max_hash_slot_num=1), IndexHeader(index_count=2))
    trial.begin_at(begin_ms)
    derived = trial.put(np.zeros(len(store_ms), np.int32), np.zeros(len(store_ms), np.int64), store_ms)
    return int((derived["time_diff_s"] != found).sum())


class SlotCounting:
    """Whether hashSlotCount counts every put, as up to 4.7.0, or the used slots, file by file: a
    store that was upgraded has files of both kinds."""

    def __init__(self) -> None:
        self._every_put: bool | None = None

    def fits(self, found: int, used: int, puts: int) -> bool:
        """Whether a file with so many used slots and puts can have the count `found`."""
        if used == puts:
            return found == used
        if found == puts and self._every_put is not False:
            self._every_put = True
            return True
        was_upgraded = self._every_put is True and used <= found <= puts  # while this file was written
        if found == used or was_upgraded:
            self._every_put = False
            return True
        return False


class IndexCheck:
    """Checks the entries of one file in order. `begin_ms` is the end timestamp of the previous file
    in milliseconds, 0 without one, None if it is not known. Not thread-safe."""

    def __init__(
        self, disk: IndexDisk, begin_ms: int | None, config: StoreConfig, out: Collector, suspect: TimeSuspect
    ) -> None:
        self.disk = disk
        self.end_ms: int | None = None
        """storeTimestamp of the last entry's message in milliseconds; None if it is not known."""
        self.begin_ms = begin_ms
        """The time that the first entry's time is relative to, None if it is not known."""
        self._first_ms: int | None = None
        self._is_begin_sure = False
        self._config = config
        self._out = out
        self._suspect = suspect
        self.slot_counting = SlotCounting()
        """How hashSlotCount counts, shared by the files of a store."""
        self.at_start: tuple[int, ...] | None = None
        """The header when the check of the store began, if a broker may write on."""
        self._has_waited = False
        self._derived = _Derived(config, IndexHeader())

    @property
    def next(self) -> int:
        """The number of the next entry."""
        return self._derived.next

    @property
    def has_room(self) -> bool:
        """Whether more entries fit behind the last one, which the header states to be the last."""
        return self.next > 1 and self.disk.end == self.disk.header[5] < self.disk.max_index_num

    def has_more(self) -> bool:
        """Whether another entry follows. What a broker has put since the check began does not
        count."""
        if self.next >= self.disk.end:
            return False
        return self.at_start is None or self.next < self._count_at_start or not self._has_grown()

    def room(self, count: int) -> int:
        """Returns how many of the next `count` entries were there when the check began."""
        left = self._count_at_start - self.next
        return min(count, left) if left > 0 else count

    @property
    def _count_at_start(self) -> int:
        return 0 if self.at_start is None else max(self.at_start[5], 1)

    def _has_grown(self) -> bool:
        """Whether a broker has put entries since the check began."""
        if self.at_start is None:
            return False
        if self.disk.header_now() == self.at_start and not self._has_waited:
            self._has_waited = True
            look_again.pause(0.5)  # it puts the entry first, then counts it
        return self.disk.header_now() != self.at_start

    def forget_begin(self) -> None:
        """Notes that keys are missing before the file's first entry, so it is not known what that
        entry's time is relative to."""
        self.begin_ms = None

    def put(
        self,
        rows: IndexRows,
        key_hash: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        store_ms: npt.NDArray[np.int64] | None,
    ) -> None:
        """Adds the entries as they are on disk, with the hash, physical offset and store time (in
        milliseconds; None if not known) that they should have."""
        if not len(key_hash):
            return
        behind_first = 1 if rows.first == 1 else 0
        if behind_first:
            if store_ms is not None:
                self._first_ms = int(store_ms[0])
            first_ms = None if store_ms is None else store_ms[:1]
            self._compare(rows.part(0, 1), key_hash[:1], offsets[:1], first_ms, self.begin_ms)
        if len(key_hash) > behind_first:
            begin_ms = None if store_ms is None else self._begin_for(rows, offsets, store_ms)
            rest_ms = None if store_ms is None else store_ms[behind_first:]
            rest = rows.part(behind_first, len(key_hash))
            self._compare(rest, key_hash[behind_first:], offsets[behind_first:], rest_ms, begin_ms)

    def fits(self, first: int, end: int) -> bool:
        """Whether the entries [first, end), proven with the time in the header, are the next
        ones."""
        is_there = self.next == first > 1 and self.room(end - first) == end - first and end <= self.disk.end
        return is_there and self._first_ms in (None, self.disk.header[0])

    def put_proven(self, end: int, last_ms: int) -> None:
        """Adds the entries up to `end`, which are those that they should be except for their links.
        The message of the last one was stored at `last_ms`."""
        while self.next < end:
            rows = self.disk.rows(self.next, min(_PROVEN_ROWS, end - self.next))
            times = np.zeros(len(rows.key_hash), np.int64)
            self._check_links(rows, self._derived.put(rows.key_hash, rows.phy_offset, times))
        self.end_ms = last_ms

    def _compare(
        self,
        rows: IndexRows,
        key_hash: npt.NDArray[np.int32],
        offsets: npt.NDArray[np.int64],
        store_ms: npt.NDArray[np.int64] | None,
        begin_ms: int | None,
    ) -> None:
        """Compares entries with the derived ones. Their times are relative to `begin_ms` (None if
        not known)."""
        times = np.zeros(len(key_hash), np.int64) if store_ms is None else store_ms
        self._derived.begin_at(begin_ms or 0)
        derived = self._derived.put(key_hash, offsets, times)
        self._check_links(rows, derived)
        self.end_ms = None if store_ms is None else int(times[-1])
        if begin_ms is not None and store_ms is not None:
            self._check_times(rows, offsets, times, derived["time_diff_s"])

    def _check_links(self, rows: IndexRows, derived: npt.NDArray[np.void]) -> None:
        previous = derived["previous_index"]
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

    def fits_better(self, rows: IndexRows, key_hash: int, than: int) -> bool:
        """Whether more links to and from the first of `rows` agree with `key_hash` than with the
        hash `than`."""
        return self._chain_score(rows, key_hash) > self._chain_score(rows, than)

    def _chain_score(self, rows: IndexRows, key_hash: int) -> int:
        """Returns how many of the links to and from the first of `rows` agree with a hash. The rows
        after the first are the look-ahead."""
        slot = (key_hash & 0x7FFFFFFF) % self.disk.slot_num
        score = int(int(self._derived.slots[slot]) == int(rows.previous_index[0]))
        named_by = np.flatnonzero(rows.previous_index[1:] == rows.first)
        if len(named_by):
            behind = int(rows.key_hash[1 + int(named_by[0])]) & 0x7FFFFFFF
            return score + int(behind % self.disk.slot_num == slot)
        return score + int(int(self.disk.slots[slot]) == rows.first)

    def _begin_for(self, rows: IndexRows, offsets: npt.NDArray[np.int64], store_ms: npt.NDArray[np.int64]) -> int:
        """Returns the time that the entries' times are relative to: that of the first message,
        unless the entries of other messages agree better with the time in the header."""
        stated_ms, first_ms = self.disk.header[0], self._first_ms
        if first_ms is None:
            return stated_ms
        first_offset = int(self._derived.state.header.begin_phy_offset)
        others = offsets != first_offset
        if first_ms == stated_ms or self._is_begin_sure or not others.any():
            return first_ms
        self._is_begin_sure = True
        found = rows.time_diff_s[others]
        wrong = [wrong_times(self._config, store_ms[others], begin_ms, found) for begin_ms in (stated_ms, first_ms)]
        if wrong[0] >= wrong[1]:
            return first_ms
        self._suspect(first_offset, first_ms, (stated_ms - first_ms) // 1000)
        self._first_ms = None
        return stated_ms

    def _check_times(
        self,
        rows: IndexRows,
        offsets: npt.NDArray[np.int64],
        store_ms: npt.NDArray[np.int64],
        expected: npt.NDArray[np.int32],
    ) -> None:
        """Compares timeDiff. If two or more entries of a message, and all of them, are off by the
        same time, the message itself is reported."""
        wrong = np.flatnonzero(expected != rows.time_diff_s)
        if not len(wrong):
            return
        if self._out.is_full and self._out.wants("index-entry-time"):
            self._out.count("index-entry-time", len(wrong))
            return
        for offset in np.unique(offsets[wrong]).tolist():
            all_of_it = np.flatnonzero(offsets == offset)
            of_it = wrong[offsets[wrong] == offset]
            off_by = rows.time_diff_s[of_it].astype(np.int64) - expected[of_it]
            if len(all_of_it) > 1 and len(of_it) == len(all_of_it) and (off_by == off_by[0]).all():
                self._suspect(int(offset), int(store_ms[of_it[0]]), int(off_by[0]))
                if all_of_it[-1] == len(offsets) - 1:
                    self.end_ms = None
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
        """Compares slots and header after the last entry, and reports bytes after the entries."""
        disk = self.disk
        for at in range(0, disk.slot_num, _SLOTS_CHUNK):
            found, expected = disk.slots[at : at + _SLOTS_CHUNK], self._derived.slots[at : at + _SLOTS_CHUNK]
            wrong = np.flatnonzero(found != expected)
            if self.at_start is not None:  # a slot may name an entry that a broker has put meanwhile
                wrong = wrong[[not self._leads_to(int(found[i]), int(expected[i])) for i in wrong.tolist()]]
            for i in self._out.some("index-slot", wrong):
                self._out.find(
                    "index-slot",
                    disk.path,
                    disk.slot_position(at + i),
                    f"slot {at + i} does not name its newest entry",
                    expected=int(expected[i]),
                    found=int(found[i]),
                    mend=self._out.rebuild,
                )
        differ = self._header_differs()
        if (differ or disk.stray is not None) and self._has_grown():
            return  # the header and what follows are being written
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
        derived = self._derived.state.header
        ends = {"begin_timestamp_ms": derived.begin_phy_offset, "end_timestamp_ms": derived.end_phy_offset}
        for field, wanted, stated in differ:
            self._out.find(
                "index-header",
                disk.path,
                INDEX_HEADER.offset_of(field),
                f"the header's {field} does not tell of the entries",
                expected=wanted,
                found=stated,
                mend=self._out.rebuild,
                about=ends.get(field),
            )

    def _leads_to(self, index: int, expected: int) -> bool:
        """Whether the chain of an entry behind the last one leads to the entry `expected`."""
        for _ in range(_NEW_ENTRIES_MAX):
            if index < self.next:
                return index == expected
            if index >= self.disk.max_index_num:
                return False
            index = int(self.disk.rows_now(index)["previous_index"])
        return True

    def _header_differs(self) -> list[tuple[str, object, int]]:
        """Returns (field, derived value, stored value) of each header field that differs. Times
        that are not known are not compared."""
        header = self.disk.header
        if self.next == 1:
            return [] if header[5] in (0, 1) else [("index_count", "0 or 1", header[5])]
        derived = self._derived.state.header
        wanted = self._first_ms, self.end_ms, *derived[2:]
        differ: list[tuple[str, object, int]] = [
            (name, want, found)
            for name, want, found in zip(derived._fields, wanted, header, strict=True)
            if want is not None and want != found and name != "hash_slot_count"
        ]
        stated, used = header[4], int(np.count_nonzero(self._derived.slots))
        if not self.slot_counting.fits(stated, used, self.next - 1):
            differ.append(("hash_slot_count", derived.hash_slot_count, stated))
        return differ
