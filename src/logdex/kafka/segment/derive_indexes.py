"""Derives a segment's .index and .timeindex from its batches, for append, recovery, rebuild and
verify.

Source: Kafka's LogSegment.append and recover (entries per batch, as from KAFKA-806 on);
``docs/formats/kafka-offset-index.md``, ``docs/formats/kafka-time-index.md``. For each batch the
largest timestamp so far is updated. Then, if more than `interval_bytes` bytes follow the last
entry, .index gets the entry (last offset, position) of the batch. If the largest timestamp has
increased since the last time entry, .timeindex gets it with the last offset of the earliest batch
that has it. So the first batch never gets an entry. Closing adds a last time entry.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import CorruptError, OffsetOrderError, OffsetOverflowError
from logdex.kafka.batch.record import NO_TIMESTAMP
from logdex.kernels.kafka import sparse_index as kernel
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s, pick_columns
from logdex.layout.base import Layout
from logdex.layout.kafka import MAGIC_V2, OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY


class IndexFold:
    """The state of the derivation for one segment. Not thread-safe.

    For a segment that already has entries, `last_index_offset` and `last_time` (timestamp, offset)
    describe the last ones. `max_timestamp` (timestamp, offset) is the largest of its batches, by
    default `last_time`.
    """

    def __init__(
        self,
        base_offset: int,
        interval_bytes: int,
        *,
        path: str = "",
        last_index_offset: int | None = None,
        last_time: tuple[int, int] | None = None,
        max_timestamp: tuple[int, int] | None = None,
    ) -> None:
        self.base_offset = base_offset
        self.interval_bytes = interval_bytes
        self.path = path
        none = base_offset - 1  # below any offset that an entry can have
        time = last_time or (NO_TIMESTAMP, none)
        largest = max_timestamp or time
        self._last_offset = none
        self._state = [0, *largest, none if last_index_offset is None else last_index_offset, *time]

    def copy(self) -> IndexFold:
        """A copy that continues from the same state."""
        twin = IndexFold.__new__(IndexFold)  # once per append
        twin.__dict__.update(self.__dict__)
        twin._state = self._state.copy()
        return twin

    @property
    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp so far, last offset of the earliest batch with it).

        It is (-1, base offset) if there is none.
        """
        timestamp = self._state[kernel.MAX_TIMESTAMP]
        if timestamp <= NO_TIMESTAMP:
            return NO_TIMESTAMP, self.base_offset
        return timestamp, self._state[kernel.MAX_OFFSET]

    def add(self, columns: BatchColumns) -> tuple[Int64s, Int64s]:
        """Adds batches, in log order, and returns their index entries.

        The result is (last offset, position)[n, 2] for .index and (timestamp, offset)[m, 2] for
        .timeindex. A batch that `repeats_nothing` names gets no entry, because the entry would
        hide the batch before it. Raises `OffsetOverflowError` for a last offset that is not 0 to
        2^31-1 above the base offset, and `OffsetOrderError` for an entry that would not increase.
        Both name the batch, and the fold cannot be used afterwards.
        """
        columns = self._without_repeats(columns)
        count = len(columns.position)
        offset_entries, time_entries = np.empty((count, 2), np.int64), np.empty((count, 2), np.int64)
        state, result = np.array(self._state, np.int64), np.zeros(3, np.int64)
        end = kernel.fold(
            columns.position,
            columns.last_offset,
            columns.max_timestamp_ms,
            columns.size,
            self.base_offset,
            self.interval_bytes,
            state,
            offset_entries,
            time_entries,
            result,
        )
        self._state = state.tolist()
        if end != kernel.GOOD:
            place = int(result[2])
            raise self._error(end, int(columns.position[place]), int(columns.last_offset[place]))
        return offset_entries[: result[0]].copy(), time_entries[: result[1]].copy()

    def add_one(
        self, position: int, last_offset: int, max_timestamp_ms: int, size_bytes: int
    ) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """As `add`, for one batch that has records, without arrays."""
        self._last_offset = max(self._last_offset, last_offset)
        row = position, last_offset, max_timestamp_ms, size_bytes
        offset_entries, time_entries, end, _ = fold_plain((row,), self.base_offset, self.interval_bytes, self._state)
        if end != kernel.GOOD:
            raise self._error(end, position, last_offset)
        return offset_entries, time_entries

    def _without_repeats(self, columns: BatchColumns) -> BatchColumns:
        """Returns the columns without batches that repeat nothing.

        The bytes of such a batch are counted with the batch before it.
        """
        if columns.count.all():  # the usual case, made quick for appends of one batch
            self._last_offset = max(self._last_offset, int(columns.last_offset.max(initial=-1)))
            return columns
        before = np.maximum.accumulate(np.concatenate(([self._last_offset], columns.last_offset)))
        self._last_offset = int(before[-1])
        repeats = repeats_nothing(columns, before[:-1])
        if not repeats.any():
            return columns
        kept = np.flatnonzero(~repeats)
        of = np.searchsorted(kept, np.flatnonzero(repeats)) - 1
        sizes = columns.size[kept]
        np.add.at(sizes, of[of >= 0], columns.size[repeats][of >= 0])
        self._state[kernel.BYTES_SINCE_ENTRY] += int(columns.size[repeats][of < 0].sum())
        return pick_columns(columns, ~repeats)._replace(size=sizes)

    def finish(self) -> Int64s:
        """The last time entry, for a roll, close or recovery: (timestamp, offset)[0 or 1, 2].

        Raises as `add` does.
        """
        timestamp, offset = self.max_timestamp
        state = self._state
        if offset < state[kernel.TIME_OFFSET]:
            raise self._error(kernel.TIME_OFFSET_FALLS)
        if timestamp <= state[kernel.TIME_TIMESTAMP]:
            return np.empty((0, 2), np.int64)
        state[kernel.TIME_TIMESTAMP], state[kernel.TIME_OFFSET] = timestamp, offset
        return np.array([[timestamp, offset]], np.int64)

    def _error(self, end: int, position: int = 0, last_offset: int = 0) -> CorruptError:
        if end == kernel.OVERFLOW:
            return OffsetOverflowError(
                f"the batch's last offset does not fit the index of the segment at {self.base_offset}",
                path=self.path,
                position=position,
                field="last_offset_delta",
                expected=f"{self.base_offset} to {self.base_offset + limits.RELATIVE_OFFSET_MAX}",
                found=last_offset,
                hint="the broker splits such a segment in two",
            )
        if end == kernel.OFFSET_FALLS:
            return OffsetOrderError(
                "the batch's last offset is not above that of the last index entry",
                path=self.path,
                position=position,
                field="base_offset",
                expected=f"above {self._state[kernel.LAST_OFFSET]}",
                found=last_offset,
            )
        return OffsetOrderError(
            "the largest timestamp's offset is below that of the last time index entry",
            path=self.path,
            position=position,
            field="max_timestamp_ms",
            expected=f"offset {self._state[kernel.TIME_OFFSET]} or above",
            found=self._state[kernel.MAX_OFFSET],
        )


def repeats_nothing(columns: BatchColumns, before: Int64s) -> npt.NDArray[np.bool_]:
    """A mask of the empty batches that can be skipped without loss.

    These have no records, and no offset above `before`, the last offset before each batch.
    """
    is_empty = (columns.magic == MAGIC_V2) & (columns.count == 0)
    return np.asarray(is_empty & (columns.last_offset <= before))


def fold_plain(
    rows: Iterable[tuple[int, int, int, int]], base_offset: int, interval: int, state: list[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int, int]:
    """The twin of `kernels.kafka.sparse_index.fold`, for rows of (position, last offset, largest
    timestamp, size).

    Updates `state` and returns (offset entries, time entries, the kernel's end code, number of rows
    added).
    """
    offset_entries: list[tuple[int, int]] = []
    time_entries: list[tuple[int, int]] = []
    since, max_timestamp, max_offset, last, time_timestamp, time_offset = state
    end, taken = kernel.GOOD, 0
    for position, last_offset, timestamp, size in rows:
        if not 0 <= last_offset - base_offset <= limits.RELATIVE_OFFSET_MAX:
            end = kernel.OVERFLOW
            break
        if timestamp > max_timestamp:
            max_timestamp, max_offset = timestamp, last_offset
        if since > interval:
            if last_offset <= last:
                end = kernel.OFFSET_FALLS
                break
            offset_entries.append((last_offset, position))
            last, since = last_offset, 0
            if max_offset < time_offset:
                end = kernel.TIME_OFFSET_FALLS
                break
            if max_timestamp > time_timestamp:
                time_timestamp, time_offset = max_timestamp, max_offset
                time_entries.append((max_timestamp, max_offset))
        since += size
        taken += 1
    state[:] = since, max_timestamp, max_offset, last, time_timestamp, time_offset
    return offset_entries, time_entries, end, taken


def encode_offset_entries(entries: npt.NDArray[np.int64], base_offset: int) -> bytes:
    """The .index bytes of (offset, position) rows. The offsets must fit `base_offset`."""
    return _packed(entries - (base_offset, 0), OFFSET_INDEX_ENTRY)


def encode_time_entries(entries: npt.NDArray[np.int64], base_offset: int) -> bytes:
    """The .timeindex bytes of (timestamp, offset) rows. The offsets must fit `base_offset`."""
    return _packed(entries - (0, base_offset), TIME_INDEX_ENTRY)


def _packed(rows: Int64s, layout: Layout) -> bytes:
    """Packs rows of stored numbers, one column per field."""
    packed = np.empty(len(rows), layout.dtype)
    for field, column in zip(layout.fields, rows.T, strict=True):
        packed[field.name] = column
    return packed.tobytes()


def derive_indexes(
    windows: Iterable[BatchColumns], base_offset: int, interval_bytes: int, *, path: str = ""
) -> tuple[bytes, bytes]:
    """The bytes of .index and .timeindex of a whole segment, given in windows.

    Raises as `IndexFold.add` does.
    """
    fold = IndexFold(base_offset, interval_bytes, path=path)
    offset_parts, time_parts = [], []
    for columns in windows:
        offset_entries, time_entries = fold.add(columns)
        offset_parts.append(encode_offset_entries(offset_entries, base_offset))
        time_parts.append(encode_time_entries(time_entries, base_offset))
    time_parts.append(encode_time_entries(fold.finish(), base_offset))
    return b"".join(offset_parts), b"".join(time_parts)


def derive_offset_index(columns: BatchColumns, base_offset: int, interval_bytes: int) -> bytes:
    """The .index bytes of a whole segment. Raises as `IndexFold.add` does."""
    return derive_indexes((columns,), base_offset, interval_bytes)[0]


def derive_time_index(columns: BatchColumns, base_offset: int, interval_bytes: int) -> bytes:
    """The .timeindex bytes of a whole segment. Raises as `IndexFold.add` does."""
    return derive_indexes((columns,), base_offset, interval_bytes)[1]
