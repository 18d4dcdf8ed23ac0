"""Decides which records of a window survive a compaction, and encodes the remaining batches.

Source: Kafka's Cleaner.cleanInto, shouldRetainRecord, MemoryRecords.filterTo. The decision uses
Arrow columns. Only a batch that loses some of its records or gets a delete horizon is decoded and
encoded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.errors import OffsetOrderError
from logdex.kafka.batch.record import NO_PRODUCER_ID, Record
from logdex.kafka.batch.record_batch import RecordBatch, decode_batch, encode_batch
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.log.cleaner.offset_map import OffsetMap
from logdex.kafka.log.cleaner.transactions import Bools, CleanedTransactions
from logdex.kafka.scan.scanner import BatchWindow
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import BATCH_CONTROL, BATCH_DELETE_HORIZON, MAGIC_V2

_DROP, _COPY, _EMPTY, _REWRITE = range(4)


@dataclass(frozen=True, slots=True)
class LastRecord:
    """Identifies a producer's last batch: by its last offset or, if only a marker is left (-1), its
    epoch."""

    last_offset: int
    producer_epoch: int


@dataclass(slots=True)
class CleanedCounts:
    """The counts of a cleaning so far."""

    records_read: int = 0
    records_kept: int = 0
    keyless_dropped: int = 0
    changed: bool = False
    """Whether any record was dropped or any batch encoded again."""


@dataclass(slots=True)
class BatchFilter:
    """Filters the segments of one round. For one thread.

    `upper_offset` is the end of what all rounds clean. With `keeps_legacy_deletes` tombstones of
    magic 0 and 1 stay.
    """

    offset_map: OffsetMap
    now_ms: int
    delete_retention_ms: int
    upper_offset: int
    producers: Mapping[int, LastRecord]
    keeps_legacy_deletes: bool = True
    transactions: CleanedTransactions = field(default_factory=CleanedTransactions)
    counts: CleanedCounts = field(default_factory=CleanedCounts)

    def filter(self, window: BatchWindow) -> bytes:
        """The bytes of the remaining batches. Raises `CorruptError`, with a position in the
        window's data."""
        columns = window.columns
        verdict = _Verdict(self, window)
        action = verdict.actions()
        self.counts.records_read += int(verdict.rows.sum())
        self.counts.records_kept += int(verdict.kept.sum())
        self.counts.changed |= bool((action != _COPY).any())
        pieces = []
        edges = np.flatnonzero(np.diff(action)) + 1
        for start, stop in zip([0, *edges.tolist()], [*edges.tolist(), window.count], strict=True):
            kind = action[start]
            if kind == _COPY:
                first, end = int(columns.position[start]), _end(columns, stop - 1)
                pieces.append(window.data[first:end].tobytes())
            elif kind == _EMPTY:
                pieces += [emptied(batch_at(window, place)) for place in range(start, stop)]
            elif kind == _REWRITE:
                pieces += [self._rewritten(batch_at(window, place), verdict, place) for place in range(start, stop)]
        return b"".join(pieces)

    def _rewritten(self, batch: RecordBatch, verdict: _Verdict, place: int) -> bytes:
        records = list(batch.records())
        if not batch.is_control:
            kept = verdict.kept_offsets(place)
            records = [record for record in records if record.offset in kept]
        horizon = batch.delete_horizon_ms
        if verdict.needs_horizon[place]:
            horizon = self.now_ms + self.delete_retention_ms
        return with_records(batch, records, horizon)


def batch_at(window: BatchWindow, place: int) -> RecordBatch:
    """A batch of a window, decoded without verifying its CRC again."""
    raw = window.data[int(window.columns.position[place]) : _end(window.columns, place)].tobytes()
    return decode_batch(raw, path=window.path, check_crc=False)[0]


def with_records(batch: RecordBatch, records: list[Record], delete_horizon_ms: int | None) -> bytes:
    """`batch` with only these records and this delete horizon; codec, offsets, producer and epoch
    stay."""
    is_current = batch.magic == MAGIC_V2
    return encode_batch(
        records,
        base_offset=batch.base_offset if is_current else records[0].offset,
        compression=batch.compression,
        leader_epoch=batch.leader_epoch,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        timestamp_type=batch.timestamp_type,
        max_timestamp_ms=batch.max_timestamp_ms,
        delete_horizon_ms=delete_horizon_ms,
        last_offset=batch.last_offset if is_current else None,
        keep_offsets=True,
        magic=batch.magic,
    )


def emptied(batch: RecordBatch) -> bytes:
    """A batch of magic 2 without its records, which preserves its offsets and sequence numbers."""
    return with_records(batch, [], None)


class _Verdict:
    """What remains of a window: per batch `rows` (records), `kept` records and `needs_horizon`."""

    def __init__(self, rules: BatchFilter, window: BatchWindow) -> None:
        columns = window.columns
        self.columns = columns
        self.is_current = columns.magic == MAGIC_V2
        self.is_control = self.is_current & (columns.attributes & BATCH_CONTROL != 0)
        self.has_horizon = self.is_current & (columns.attributes & BATCH_DELETE_HORIZON != 0)
        self.is_past = self.has_horizon & (columns.base_timestamp_ms <= rules.now_ms)
        may_go = rules.transactions.observe(columns)
        self.is_gone = may_go & (~self.is_control | self.is_past)
        self.stays_empty = _last_batches(rules, columns, self.is_control)
        self.rows = np.where(self.is_control, columns.count, 0).astype(np.int64)
        self.kept = np.where(self.is_control & ~self.is_gone, self.rows, 0)
        tombstones = np.zeros(window.count, np.int64)
        offsets: list[Int64s] = [np.empty(0, np.int64)]
        kept: list[Bools] = [np.empty(0, np.bool_)]
        data_rows = np.zeros(window.count, np.int64)
        for batch, which in rows_of(window, ("offset", "key", "value")):
            keep, has_value = self._judge(rules, batch, which)
            data_rows += np.bincount(which, minlength=window.count)
            self.kept += np.bincount(which[keep], minlength=window.count)
            tombstones += np.bincount(which[keep & ~has_value], minlength=window.count)
            offsets.append(batch.column(0).to_numpy())
            kept.append(keep)
        self._offsets, self._keep = np.concatenate(offsets), np.concatenate(kept)
        _require_all(window, data_rows, self.is_current & ~self.is_control)
        self._starts = np.cumsum(data_rows) - data_rows
        self._data_rows = data_rows
        self.rows += data_rows
        is_due = (tombstones > 0) | (self.is_control & may_go)
        self.needs_horizon = self.is_current & ~self.has_horizon & is_due & (self.kept > 0)

    def _judge(self, rules: BatchFilter, batch: pa.RecordBatch, which: npt.NDArray[np.intp]) -> tuple[Bools, Bools]:
        """(mask of the rows that remain, mask of the rows with a value)."""
        offsets, keys = batch.column(0).to_numpy(), batch.column(1)
        has_key = keys.is_valid().to_numpy(zero_copy_only=False)
        has_value = batch.column(2).is_valid().to_numpy(zero_copy_only=False)
        stays_deleted = np.where(self.is_current, ~self.is_past, rules.keeps_legacy_deletes)[which]
        is_later = offsets > rules.offset_map.latest_offset
        is_last = has_key & (offsets >= rules.offset_map.get_many(keys))
        keep = (is_later | (is_last & (has_value | stays_deleted))) & ~self.is_gone[which]
        rules.counts.keyless_dropped += int((~has_key & ~keep & ~self.is_gone[which]).sum())
        return keep, has_value

    def actions(self) -> npt.NDArray[np.int8]:
        """The action for each batch."""
        whole = np.where((self.kept == self.rows) & ~self.needs_horizon, _COPY, _REWRITE)
        # An empty batch stays as it is. Batches of magic 0 and 1 cannot be emptied.
        empty = np.where(self.is_current & (self.columns.count != 0), _EMPTY, _COPY)
        nothing = np.where(self.stays_empty, empty, _DROP)
        actions: npt.NDArray[np.int8] = np.where(self.kept > 0, whole, nothing).astype(np.int8)
        return actions

    def kept_offsets(self, place: int) -> set[int]:
        """The offsets of the remaining records of one data batch."""
        rows = slice(self._starts[place], self._starts[place] + self._data_rows[place])
        return set(self._offsets[rows][self._keep[rows]].tolist())


def rows_of(window: BatchWindow, names: tuple[str, ...]) -> Iterator[tuple[pa.RecordBatch, npt.NDArray[np.intp]]]:
    """Yields records of a window's data batches, with the index of each one's batch in the window.

    `names` are the columns, of which ``offset`` must be the first.
    """
    first, end = int(window.columns.position[0]), _end(window.columns, window.count - 1)
    last_offsets = window.columns.last_offset
    for batch in read_record_batches(
        window.data, start=first, stop=end, columns=names, check_crc=False, path=window.path
    ):
        which = np.searchsorted(last_offsets, batch.column(0).to_numpy())
        yield batch, np.minimum(which, window.count - 1)


def _require_all(window: BatchWindow, rows: Int64s, is_data: Bools) -> None:
    """Raises `OffsetOrderError` unless every record was found in its own batch."""
    wrong = np.flatnonzero(is_data & (rows != window.columns.count))
    if len(wrong):
        place = int(wrong[0])
        raise OffsetOrderError(
            "offsets do not increase from batch to batch",
            path=window.path,
            position=int(window.columns.position[place]),
            field="records",
            expected=int(window.columns.count[place]),
            found=int(rows[place]),
        )


def _last_batches(rules: BatchFilter, columns: BatchColumns, is_control: Bools) -> Bools:
    """The batches that stay even when empty: each producer's last, and the last one that is
    cleaned.

    So the producers' sequence numbers and epochs are preserved.
    """
    stays: Bools = columns.last_offset + 1 == rules.upper_offset
    for place in np.flatnonzero(columns.producer_id != NO_PRODUCER_ID).tolist():
        last = rules.producers.get(int(columns.producer_id[place]))
        if last is None:
            continue
        if last.last_offset >= 0:
            stays[place] |= bool(columns.last_offset[place] == last.last_offset)
        else:
            stays[place] |= bool(is_control[place] and columns.producer_epoch[place] == last.producer_epoch)
    return stays


def _end(columns: BatchColumns, place: int) -> int:
    return int(columns.position[place]) + int(columns.size[place])
