"""Decides which records are committed: those of a transaction are if the next marker of its
producer in the log is a commit marker.

All readers of committed records use this module: reads by offset, scans, and followers of a log
that grows. It reads the log itself and not the transaction indexes, which are derived from it and
may be missing or belong to another log. They are used only for markers that the log has lost to
damage.

Source: Kafka's ProducerStateManager for the end of a transaction, CompletedFetch for the records
that a reader skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from logdex.errors import LogdexError
from logdex.frames.arrow import pa
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.read.scan_state import position_of, walk_from
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow, EndKind
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.state.producer_state import ProducerStates, aborted_of
from logdex.kernels.common.crc32c import CrcSources, crc_sources
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, pick_columns
from logdex.kernels.kafka.batch_scan import batch_crc
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL, CONTROL_ABORT, CONTROL_COMMIT

_WINDOW_BATCHES = 1024
_NO_RECORD = -1
_KNOWN_MARKERS = (CONTROL_ABORT, CONTROL_COMMIT, _NO_RECORD)


class TransactionFold:
    """The transactions of a log, computed from its batches in log order. `states` are the producer
    states at the first of these batches. Not thread-safe."""

    def __init__(self, states: ProducerStates | None = None) -> None:
        self._states = ProducerStates() if states is None else states

    def add(self, columns: BatchColumns) -> list[AbortedTxn]:
        """Adds the batches of a window. Returns the aborted transactions that end in it.

        Control records that end no transaction (those of the `__cluster_metadata` log, and unknown
        ones) are ignored.
        """
        is_control = columns.attributes & BATCH_CONTROL != 0
        tells = is_control & np.isin(columns.control_type, _KNOWN_MARKERS)
        tells |= ~is_control & (columns.attributes & BATCH_TRANSACTIONAL != 0)
        return aborted_of(self._states.add(pick_columns(columns, tells))) if tells.any() else []

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the earliest transaction without a marker; None if all have ended."""
        return self._states.first_unstable_offset


class AbortedTransactions:
    """A set of aborted transactions, which decides about batches and rows. Immutable; it can be
    pickled."""

    def __init__(self, transactions: Iterable[AbortedTxn] = ()) -> None:
        by_producer: dict[int, list[tuple[int, int]]] = {}
        for txn in transactions:
            by_producer.setdefault(txn.producer_id, []).append((txn.first_offset, txn.last_offset))
        self._spans = {producer: _rising(spans) for producer, spans in by_producer.items()}

    def __bool__(self) -> bool:
        return bool(self._spans)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbortedTransactions) and _plain(self._spans) == _plain(other._spans)

    def __hash__(self) -> int:
        return hash(tuple(self._spans))

    def between(self, start: int, stop: int) -> AbortedTransactions:
        """Returns the transactions that have batches with offsets in [`start`, `stop`)."""
        found = AbortedTransactions()
        for producer, spans in self._spans.items():
            touches = (spans[:, 1] >= start) & (spans[:, 0] < stop)
            if touches.any():
                found._spans[producer] = spans[touches]
        return found

    def has(self, batch: RecordBatch) -> bool:
        """Whether a batch is data of an aborted transaction."""
        spans = self._spans.get(batch.producer_id)
        if spans is None or batch.is_control or not batch.is_transactional:
            return False
        return bool(_inside(spans, np.array([batch.last_offset]))[0])

    def rows(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Returns a mask of the rows that are data of an aborted transaction.

        The columns `offset`, `producer_id`, `is_transactional` and `is_control` are needed.
        """
        dropped = np.zeros(len(batch), np.bool_)
        if not self._spans:
            return dropped
        offsets = batch.column("offset").to_numpy()
        producers = batch.column("producer_id").to_numpy()
        is_data = batch.column("is_transactional").to_numpy(zero_copy_only=False)
        is_data = is_data & ~batch.column("is_control").to_numpy(zero_copy_only=False)
        for producer in np.unique(producers[is_data]).tolist():
            if producer in self._spans:
                rows = np.flatnonzero(is_data & (producers == producer))
                dropped[rows] = _inside(self._spans[producer], offsets[rows])
        return dropped


NOTHING_ABORTED = AbortedTransactions()


def _rising(spans: list[tuple[int, int]]) -> Int64s:
    """Returns (first offset, last offset)[n, 2]. The last offsets rise too, so that one look-up is
    enough."""
    found = np.array(sorted(spans), np.int64)
    found[:, 1] = np.maximum.accumulate(found[:, 1])
    return found


def _inside(spans: Int64s, offsets: Int64s) -> npt.NDArray[np.bool_]:
    place = np.searchsorted(spans[:, 0], offsets, side="right") - 1
    return np.asarray((place >= 0) & (offsets <= spans[place, 1]))


def _plain(spans: dict[int, Int64s]) -> dict[int, list[list[int]]]:
    return {producer: found.tolist() for producer, found in spans.items()}


# -- finding them --------------------------------------------------------------------------------
Windows = Iterator[tuple[BatchColumns, npt.NDArray[np.bool_]]]
"""Windows of batches, each with a mask of the whole ones. Only markers that are whole are used."""


class _AstrayError(Exception):
    """Headers do not lead from batch to batch."""


def find_aborted(segments: Sequence[LogSegment], start: int, stop: int) -> AbortedTransactions:
    """Returns the aborted transactions with batches in [`start`, `stop`) of rising segments.

    Batch headers are read from `start` to `stop`, and further until the transactions with batches
    there have ended. Records are not read. Only the checksums of markers are checked, as long as
    the headers lead from batch to batch and their offsets rise. Otherwise there is damage: then
    every checksum is checked, and reading continues after the damage as for every reader.
    """
    try:
        return _find_aborted(segments, start, stop, _linked_windows)
    except _AstrayError:
        return _find_aborted(segments, start, stop, _checked_windows)


def _find_aborted(
    segments: Sequence[LogSegment], start: int, stop: int, windows: Callable[[LogSegment, int], Windows]
) -> AbortedTransactions:
    fold, found = TransactionFold(), list[AbortedTxn]()
    for place, segment in enumerate(segments):
        next_base = segments[place + 1].base_offset if place + 1 < len(segments) else 1 << 63
        if next_base <= start:
            continue
        lost = _LostMarkers(segment, max(start, segment.base_offset), next_base)
        passed = segment.base_offset
        for columns, is_whole in windows(segment, max(start, segment.base_offset)):
            lost.drop_known(columns, is_whole)
            found += fold.add(columns)
            passed = int(columns.last_offset[-1]) + 1
            if _is_done(fold, passed, stop):
                return AbortedTransactions(found + lost.below(passed))
        found += lost.below(next_base)
        if _is_done(fold, next_base, stop):
            break
    return AbortedTransactions(found)


def _is_done(fold: TransactionFold, passed: int, stop: int) -> bool:
    first_open = fold.first_open_offset
    return passed >= stop and (first_open is None or first_open >= stop)


def _linked_windows(segment: LogSegment, offset: int) -> Windows:
    scanner, crcs, last = BatchScanner(False, _WINDOW_BATCHES, segment.env), crc_sources(), segment.base_offset - 1
    with segment.log.map() as mapped:
        data = mapped.array[: segment.size_bytes]
        for window in scanner.scan_bytes(data, position_of(segment, offset), path=segment.log.path):
            columns = window.columns
            if (columns.base_offset <= np.append(last, columns.last_offset[:-1])).any():
                raise _AstrayError
            last = int(columns.last_offset[-1])
            yield _with_whole_markers(window, crcs)
    if scanner.end.kind in (EndKind.CORRUPT, EndKind.TORN):
        raise _AstrayError


def _with_whole_markers(window: BatchWindow, crcs: CrcSources) -> tuple[BatchColumns, npt.NDArray[np.bool_]]:
    """A marker with a wrong checksum ends its transaction. Only an index can state whether it
    aborts it."""
    columns, is_whole = window.columns, np.ones(window.count, np.bool_)
    base = window.data.ctypes.data
    for place in np.flatnonzero(columns.attributes & BATCH_CONTROL).tolist():
        crc = int(batch_crc(base + int(columns.position[place]), crcs)) & 0xFFFFFFFF
        is_whole[place] = crc == int(columns.crc[place])
    if not is_whole.all():
        columns = columns._replace(control_type=np.where(is_whole, columns.control_type, CONTROL_COMMIT))
    return columns, is_whole


def _checked_windows(segment: LogSegment, offset: int) -> Windows:
    for window in walk_from(segment, offset, segment.env, check_crc=True):
        yield window.columns, np.ones(window.count, np.bool_)


class _LostMarkers:
    """Entries of a segment's transaction index whose markers are missing in the log because of
    damage."""

    def __init__(self, segment: LogSegment, start: int, stop: int) -> None:
        try:
            entries = segment.txn_index.all_aborted_txns()
        except LogdexError:
            entries = []  # verify reports it
        self._entries = [entry for entry in entries if start <= entry.last_offset < stop]

    def drop_known(self, columns: BatchColumns, is_whole: npt.NDArray[np.bool_]) -> None:
        """Drops the entries whose marker's offset is in a whole batch of the log, because that
        batch is used instead."""
        if not self._entries:
            return
        offsets = np.array([entry.last_offset for entry in self._entries])
        place = np.minimum(np.searchsorted(columns.last_offset, offsets), len(columns.last_offset) - 1)
        known = (columns.base_offset[place] <= offsets) & (offsets <= columns.last_offset[place]) & is_whole[place]
        self._entries = [entry for entry, is_known in zip(self._entries, known.tolist(), strict=True) if not is_known]

    def below(self, offset: int) -> list[AbortedTxn]:
        """Returns the remaining entries whose markers are below `offset`."""
        return [entry for entry in self._entries if entry.last_offset < offset]
