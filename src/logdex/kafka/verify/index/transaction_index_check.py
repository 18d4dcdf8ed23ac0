"""Compares the `.txnindex` files with the aborted transactions of the log.

If the log does not start at offset 0, or records were compacted or lost, the log may not show
everything that the files hold. Then each transaction is judged by itself: if the log has a record
and the abort marker of a transaction, its entry must exist, and if the log shows the transaction's
first record, the entry must name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from logdex import limits
from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.kafka.segment.transaction_index import AbortedTxn, derive_transaction_index
from logdex.kafka.state.producer_batches import telling_places
from logdex.kafka.verify.checks import Collector
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL, CONTROL_ABORT, TRANSACTION_INDEX_ENTRY
from logdex.primitives.shown import counted

_LOOKS = 3
_Entry = tuple[int, int, int, int, int]
"""Version, producer id, first offset, last offset, last stable offset."""


class _Opened(NamedTuple):
    """A transaction whose first record in the log is at `first_offset`. If it may have begun
    before, then at [`hidden_from`, `hidden_below`), where records may be missing in the log."""

    first_offset: int
    hidden_from: int
    hidden_below: int


class _Aborted(NamedTuple):
    """A transaction that the log shows as aborted. Records below `hidden_below` may be missing in
    the log; None if records were lost by damage."""

    txn: AbortedTxn
    opened: _Opened
    hidden_below: int | None

    def allows(self, first_offset: int, last_stable_offset: int) -> bool:
        """Whether an entry can state these offsets for it."""
        opened = self.opened
        if first_offset != opened.first_offset and not opened.hidden_from <= first_offset < opened.hidden_below:
            return False
        stable = self.txn.last_stable_offset
        if self.hidden_below is None or last_stable_offset == stable:
            return True
        return 0 <= last_stable_offset < min(stable, self.hidden_below)  # another one that began before was open


class TransactionCheck:
    """Checks the transaction indexes of one partition, given its windows in order. Not
    thread-safe."""

    def __init__(self, log_start_offset: int, out: Collector, env: Env) -> None:
        self._out = out
        self._env = env
        self._next_offset = 0
        self._gap_end = log_start_offset
        """From here on the log has every record up to `_next_offset`."""
        self._damage_end = 0
        self._is_damaged = False
        self._markers: dict[int, int] = {}
        """The offset of each producer's last end marker."""
        self._opened: dict[int, _Opened] = {}
        self._derived: list[AbortedTxn] = []
        self._aborted: dict[tuple[int, int], _Aborted] = {}
        """By producer id and the offset of the marker."""
        self._bare: set[tuple[int, int]] = set()
        """Abort markers of which the log has no record."""

    # -- folding ----------------------------------------------------------------------------------
    def lose_bytes(self) -> None:
        """Notes that batches were lost by damage before the next one."""
        self._is_damaged = True

    def add(self, columns: BatchColumns, aborted: Sequence[AbortedTxn]) -> None:
        """Adds a window of batches, and the aborted transactions that end in it."""
        self._derived += aborted
        before = np.append(self._next_offset, columns.last_offset[:-1] + 1)
        gaps = columns.base_offset != before
        if self._is_damaged:
            self._is_damaged, gaps[0] = False, True
            self._damage_end = int(columns.base_offset[0])
            self._opened.clear()
        gap_ends = np.maximum.accumulate(np.where(gaps, columns.base_offset, self._gap_end))
        kinds = BATCH_CONTROL | BATCH_TRANSACTIONAL
        places = [place for place in telling_places(columns).tolist() if columns.attributes[place] & kinds]
        by_marker = {txn.last_offset: txn for txn in aborted}
        for place in places:
            producer, offset = int(columns.producer_id[place]), int(columns.base_offset[place])
            gap_end = int(gap_ends[place])
            if columns.attributes[place] & BATCH_CONTROL:
                if int(columns.control_type[place]) == CONTROL_ABORT:
                    self._abort(producer, offset, by_marker.get(offset), gap_end)
                self._opened.pop(producer, None)
                self._markers[producer] = offset
            elif producer not in self._opened:
                is_first = int(columns.base_sequence[place]) == 0
                self._opened[producer] = self._open(producer, offset, gap_end, is_first=is_first)
        self._gap_end = int(gap_ends[-1])
        self._next_offset = int(columns.last_offset[-1]) + 1

    def _open(self, producer: int, offset: int, gap_end: int, *, is_first: bool) -> _Opened:
        """A transaction whose first record in the log is at `offset`. `is_first`: the first record
        of the producer's epoch."""
        marker = self._markers.get(producer, -1)
        is_known = is_first or gap_end == 0 or marker >= gap_end
        return _Opened(offset, marker + 1, 0 if is_known else gap_end)

    def _abort(self, producer: int, offset: int, txn: AbortedTxn | None, gap_end: int) -> None:
        opened = self._opened.get(producer)
        if txn is None or opened is None:
            self._bare.add((producer, offset))
            return
        hidden_below = gap_end if self._damage_end == 0 else None
        self._aborted[producer, offset] = _Aborted(txn, opened, hidden_below)

    # -- comparing --------------------------------------------------------------------------------
    def end_segment(self, path: str, base_offset: int, *, is_certain: bool, log: tuple[str, int] | None = None) -> None:
        """Compares the `.txnindex` at `path` with the segment's transactions. `is_certain`: the log
        has everything from offset 0 on. `log`: the path of the .log and its size when it was read,
        if a broker may be writing it."""
        try:
            self._compare(path, self._read(path, log), base_offset, is_certain=is_certain)
        except UnreadableError as error:
            self._out.find_error("unreadable", error, self._out.rebuild)
        self._forget_segment()

    def _read(self, path: str, log: tuple[str, int] | None) -> bytes:
        """Returns the content of a `.txnindex`. A broker writes an entry just after the marker, and
        may have written further ones since the log was read: these are left out."""
        if self._env.exists(path):
            self._out.files += 1
        stored = b""
        for look in range(1 if log is None else _LOOKS):
            if look:
                look_again.pause()
            if self._env.exists(path):
                stored = self._env.read_file(path, limits.INDEX_SIZE_BYTES_MAX)
            if log is not None and self._env.size_bytes(log[0]) > log[1]:
                stored = self._without_newer(stored)
            if stored == derive_transaction_index(self._derived):
                break
        return stored

    def _without_newer(self, stored: bytes) -> bytes:
        """Returns the entries without those at the end whose markers are behind what was read."""
        slot = TRANSACTION_INDEX_ENTRY.size_bytes
        end = len(stored)
        while end >= slot and TRANSACTION_INDEX_ENTRY.struct.unpack(stored[end - slot : end])[3] >= self._next_offset:
            end -= slot
        return stored[:end]

    def _compare(self, path: str, stored: bytes, base_offset: int, *, is_certain: bool) -> None:
        if stored == derive_transaction_index(self._derived) or self._check_size(path, stored):
            return
        entries: list[_Entry] = list(TRANSACTION_INDEX_ENTRY.struct.iter_unpack(stored))
        if is_certain:
            self._compare_all(path, entries)
        else:
            self._compare_known(path, entries, base_offset)

    def _forget_segment(self) -> None:
        self._derived, self._aborted, self._bare = [], {}, set()

    def _check_size(self, path: str, stored: bytes) -> bool:
        """Reports a length that is not a multiple of the entry size. Returns whether there was such
        a finding."""
        slot = TRANSACTION_INDEX_ENTRY.size_bytes
        whole = len(stored) // slot * slot
        if len(stored) == whole:
            return False
        self._out.find(
            "txn-index-size",
            path,
            whole,
            f"{len(stored) - whole} bytes behind the last whole entry",
            expected=f"a multiple of {slot}",
            found=len(stored),
            mend=self._out.rebuild,
        )
        return True

    def _compare_all(self, path: str, entries: list[_Entry]) -> None:
        derived = self._derived
        for place, entry in enumerate(entries):
            right = (0, *derived[place]) if place < len(derived) else None
            if entry != right:
                self._find_entry(path, place, entry, right)
        self._find_missing(path, len(entries), derived[len(entries) :])

    def _compare_known(self, path: str, entries: list[_Entry], base_offset: int) -> None:
        """Compares the entries with what the log shows of their transactions."""
        missing, findings = dict(self._aborted), 0
        for place, entry in enumerate(entries):
            version, producer, first, last, stable = entry
            known = missing.pop((producer, last), None)
            if known is None:
                is_possible = self._may_be_hidden(producer, first, last, base_offset)
            else:
                is_possible = known.allows(first, stable)
            if version != 0 or not is_possible:
                self._find_entry(path, place, entry, None if known is None else (0, *known.txn))
                findings += 1
        self._find_missing(path, len(entries), [known.txn for known in missing.values()])
        if not findings and not missing:
            message = "tells of other aborted transactions than what is left of the log"
            self._out.info("txn-index-differs", path, message)

    def _may_be_hidden(self, producer: int, first: int, last: int, base_offset: int) -> bool:
        """Whether a transaction can have been aborted of which the log has no record, or no
        marker."""
        if not base_offset <= last or not 0 <= first <= last:
            return False
        return self._is_damaged or last < self._gap_end or (producer, last) in self._bare

    def _find_entry(self, path: str, place: int, entry: _Entry, right: tuple[int, ...] | None) -> None:
        log_name = path.rpartition("/")[2].replace(".txnindex", ".log")
        self._out.find(
            "txn-index-entry",
            path,
            place * TRANSACTION_INDEX_ENTRY.size_bytes,
            f"entry {place} is not that of an aborted transaction of {log_name}",
            expected="no entry" if right is None else right,
            found=entry,
            mend=self._out.rebuild,
        )

    def _find_missing(self, path: str, entries: int, missing: Sequence[AbortedTxn]) -> None:
        """Reports transactions without an entry; the file has so many entries."""
        if not missing:
            return
        told = counted(
            len(missing), "aborted transaction has no entry: its", "aborted transactions have no entry: their"
        )
        self._out.find(
            "txn-index-missing",
            path,
            entries * TRANSACTION_INDEX_ENTRY.size_bytes,
            f"{told} records read as committed",
            expected=missing[0],
            found="nothing",
            mend=self._out.rebuild,
        )
