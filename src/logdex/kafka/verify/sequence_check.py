"""Checks the sequence numbers and epochs of producers from batch to batch, as the broker did when
the batches were appended.

A gap in a producer's sequence numbers is a finding if no offset is missing between its two batches:
then nothing was removed from the log, so the missing records were never appended. Missing offsets
(from compaction, recovery or damage) explain a gap, and so does a batch below the log start offset,
because a broker that loads the log no longer knows its producer. So does a sequence that begins
with 0 again: a broker forgets a producer that was silent for producer.id.expiration.ms, and takes
it from one that it knows for a duplicate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kafka.verify.checks import Collector
from logdex.kernels.kafka.batch_columns import BatchColumns, Int64s
from logdex.layout.kafka import BATCH_CONTROL

_SEQUENCE_MASK = (1 << 31) - 1


class _Last(NamedTuple):
    """A producer's last batch: its epoch, its last sequence (-1 after a marker of a new epoch), and
    the number of offset gaps in the log up to it."""

    epoch: int
    sequence: int
    gaps: int


class SequenceCheck:
    """Checks the sequence numbers of one partition, given all its windows in order. Not
    thread-safe."""

    def __init__(self, log_start_offset: int, out: Collector) -> None:
        self._log_start_offset = log_start_offset
        self._out = out
        self._last: dict[int, _Last] = {}
        self._gaps = 0
        self._next_offset = -1
        self.explained = 0
        """The number of sequence gaps that missing offsets explain."""

    def lose(self) -> None:
        """Notes that bytes of the log were lost here."""
        self._gaps += 1

    def add(self, columns: BatchColumns, path: str) -> None:
        """Adds a window of good batches of the .log at `path`."""
        gaps = self._count_gaps(columns)
        places = np.flatnonzero(columns.producer_id >= 0)
        if not len(places):
            return
        places = places[np.argsort(columns.producer_id[places], kind="stable")]
        producer = columns.producer_id[places]
        starts = np.flatnonzero(np.append(True, producer[1:] != producer[:-1]))
        ends = np.append(starts[1:], len(places))
        epoch = columns.producer_epoch[places].astype(np.int64)
        first = columns.base_sequence[places].astype(np.int64)
        span = (columns.last_offset - columns.base_offset)[places]
        is_control = columns.attributes[places] & BATCH_CONTROL != 0
        last = np.where(first < 0, -1, (first + span) & _SEQUENCE_MASK)
        # the values of the producer's batch before; for its first batch in the window they are from
        # earlier windows
        known_epoch, known_last, known_gaps = np.roll(epoch, 1), np.roll(last, 1), np.roll(gaps[places], 1)
        for start in starts.tolist():
            before = self._last.get(int(producer[start]), _Last(-1, -1, -1))
            known_epoch[start], known_last[start], known_gaps[start] = before
        own_gaps = gaps[places]
        self._carry_over_markers(
            starts, ends, is_control, (epoch, last, own_gaps), (known_epoch, known_last, known_gaps)
        )
        same = (known_epoch == epoch) & (known_last >= 0) & (first >= 0) & ~is_control
        begins = (known_epoch >= 0) & (epoch > known_epoch) & (first > 0) & ~is_control
        wrong = (same & (first != (known_last + 1) & _SEQUENCE_MASK)) | begins
        falls = (known_epoch >= 0) & (epoch < known_epoch)
        explained = (known_gaps != gaps[places]) | (same & (first == 0))
        self.explained += int((wrong & explained).sum())
        self._tell(columns, path, places, wrong & ~falls & ~explained, known_last, known_epoch, falls & ~explained)
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            at = end - 1
            self._last[int(producer[start])] = _Last(int(epoch[at]), int(last[at]), int(own_gaps[at]))

    def _carry_over_markers(
        self,
        starts: npt.NDArray[np.intp],
        ends: npt.NDArray[np.intp],
        is_control: npt.NDArray[np.bool_],
        own: tuple[Int64s, Int64s, Int64s],
        known: tuple[Int64s, Int64s, Int64s],
    ) -> None:
        """Fills in sequences across markers, which have none: within an epoch, the batch after a
        marker continues from the batch before it. `own` holds the epoch, last sequence and gaps of
        each batch, `known` those of the batch before it."""
        if not is_control.any():
            return
        (epoch, last, gaps), (known_epoch, known_last, known_gaps) = own, known
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            for at in range(start, end):
                if at > start:
                    known_last[at], known_gaps[at] = last[at - 1], gaps[at - 1]
                if is_control[at]:
                    last[at] = known_last[at] if known_epoch[at] == epoch[at] else -1
                    gaps[at] = known_gaps[at] if last[at] >= 0 else gaps[at]

    def _count_gaps(self, columns: BatchColumns) -> Int64s:
        """Returns the number of offset gaps before each batch, including gaps inside the batches up
        to it. Offsets below the log start offset count as a gap."""
        before = np.append(self._next_offset, columns.last_offset[:-1] + 1)
        if self._next_offset < 0:
            before[0] = columns.base_offset[0]
        is_forgotten = (before >= 0) & (before <= self._log_start_offset) & (self._log_start_offset > 0)
        missing = ((columns.base_offset != before) | is_forgotten).astype(np.int64)
        holed = (columns.count != columns.last_offset - columns.base_offset + 1) & (columns.count >= 0)
        gaps = self._gaps + np.cumsum(missing + holed)
        self._gaps = int(gaps[-1])
        self._next_offset = int(columns.last_offset[-1]) + 1
        return gaps

    def _tell(
        self,
        columns: BatchColumns,
        path: str,
        places: npt.NDArray[np.intp],
        wrong: npt.NDArray[np.bool_],
        known_last: Int64s,
        known_epoch: Int64s,
        falls: npt.NDArray[np.bool_],
    ) -> None:
        for index in self._out.some("producer-sequence", np.flatnonzero(wrong)):
            place = int(places[index])
            after = int(known_last[index]) if columns.producer_epoch[place] == known_epoch[index] else -1
            expected, found = (after + 1) & _SEQUENCE_MASK, int(columns.base_sequence[place])
            self._find("producer-sequence", columns, path, place, "sequence numbers do not go on", expected, found)
        for index in self._out.some("producer-epoch", np.flatnonzero(falls)):
            place = int(places[index])
            least, found = f"{int(known_epoch[index])} or above", int(columns.producer_epoch[place])
            text = "its epoch is below that of the batch before"
            self._find("producer-epoch", columns, path, place, text, least, found)

    def _find(
        self, check: str, columns: BatchColumns, path: str, place: int, text: str, expected: object, found: int
    ) -> None:
        message = f"producer {int(columns.producer_id[place])}, offset {int(columns.base_offset[place])}: {text}"
        position = int(columns.position[place])
        self._out.find(check, path, position, message, expected=expected, found=found, mend=_MEND)


_MEND = "compare with a replica: the batch is whole, but no broker appends it here"
