"""Which bytes of a CommitLog the ConsumeQueues vouch for, so that whoever wants some queues need
not read the others.

Every message has one entry with its offset and size, but for those of transactions that were not
committed. So where the entries of *all* queues lie end to end, without a gap or an overlap, each
message there is of the queue whose entry names it, and nothing else is there. Where they do not,
nobody knows without reading: queues that are missing or were made anew, entries that were lost, are
stale, or were never written, all show as bytes that no entry vouches for.

What one queue says could still be wrong as a whole (a folder with another name, entries behind a
cut of the log): so the last entry of each queue is held against the message that it points to, by
whoever reads (`PieceEntries.last`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.layout.rocketmq import MESSAGE_FIXED_SIZE_BYTES_MIN
from logdex.rocketmq.consume_queue.queue_cursor import EntryRun, Int64s, QueueCursor

Flags = npt.NDArray[np.bool_]

_SIZE_BITS = 31
_SIZE_MASK = (1 << _SIZE_BITS) - 1


@dataclass(frozen=True, slots=True)
class QueueEntries:
    """Entries of several queues in the order of the log; `queue` has the number of each entry's
    cursor."""

    offsets: Int64s
    sizes: Int64s
    queue_offsets: Int64s
    queue: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def where(self, rows: Int64s | slice) -> QueueEntries:
        """The entries at some places."""
        return QueueEntries(self.offsets[rows], self.sizes[rows], self.queue_offsets[rows], self.queue[rows])


class PieceEntries:
    """What all queues of a store say of a piece of the log: runs of entries, each with its queue's
    number. Entries that no message can have are left out."""

    def __init__(self, runs: Iterable[tuple[int, EntryRun]]) -> None:
        """The runs of a queue come one after the other."""
        self._runs: list[tuple[int, EntryRun]] = []
        for number, run in runs:
            sizes = run.sizes
            if sizes.min() < MESSAGE_FIXED_SIZE_BYTES_MIN or sizes.max() > limits.MESSAGE_SIZE_BYTES_MAX:
                run = run.where((sizes >= MESSAGE_FIXED_SIZE_BYTES_MIN) & (sizes <= limits.MESSAGE_SIZE_BYTES_MAX))
            if len(run):
                self._runs.append((number, run))

    @staticmethod
    def of(cursors: Sequence[QueueCursor], begin: int, end: int) -> PieceEntries:
        """The entries of messages that begin at physical offsets [begin, end)."""
        return PieceEntries((number, run) for number, one in enumerate(cursors) for run in one.take(begin, end))

    def runs(self, queues: Container[int]) -> list[tuple[int, EntryRun]]:
        """The runs of some queues."""
        return [(number, run) for number, run in self._runs if number in queues]

    def last(self) -> QueueEntries:
        """The last entry of each queue."""
        last = dict(self._runs)
        return entries_of((number, run.slice(len(run) - 1, len(run))) for number, run in last.items())

    def at(self, offsets: Int64s) -> QueueEntries:
        """The entries that point to some physical offsets, which rise."""
        found = []
        for number, run in self._runs:
            places = np.searchsorted(run.offsets, offsets)
            places[places == len(run)] = 0
            found.append((number, run.where(places[run.offsets[places] == offsets])))
        return entries_of(found)

    def leave_out(self, wrong: QueueEntries, *, whole_queues: bool = False) -> None:
        """Leaves out entries that turned out to be wrong: all those that point to the same offset,
        or all those of their queues."""
        if whole_queues:
            queues = set(wrong.queue.tolist())
            self._runs = [(number, run) for number, run in self._runs if number not in queues]
        else:
            kept = ((number, run.where(~np.isin(run.offsets, wrong.offsets))) for number, run in self._runs)
            self._runs = [(number, run) for number, run in kept if len(run)]

    def covered_ranges(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """The ranges (begin, end, offset of the last message) of physical offsets that the entries
        fill without a gap, in order. No entry points before `begin`, where a message begins.
        Entries that overlap others, or go on behind `end`, the end of the file, vouch for nothing;
        equal ones count once."""
        if not self._runs:
            return np.empty((0, 3), np.int64)
        keys = np.concatenate([(run.offsets - begin) << _SIZE_BITS | run.sizes for _, run in self._runs])
        keys.sort(kind="stable")  # It merges what rises.
        ends = keys & _SIZE_MASK
        starts = np.right_shift(keys, _SIZE_BITS, out=keys)
        ends += starts
        steps = starts[1:] - ends[:-1]
        if ends[-1] > end - begin or (len(steps) and steps.min() < 0):
            starts, ends = _apart(starts, ends, end - begin)
            steps = starts[1:] - ends[:-1]
        if not len(starts):
            return np.empty((0, 3), np.int64)
        breaks = np.flatnonzero(steps)
        firsts, lasts = np.append(0, breaks + 1), np.append(breaks, len(starts) - 1)
        return np.stack([starts[firsts], ends[lasts], starts[lasts]], axis=1) + begin


def entries_of(runs: Iterable[tuple[int, EntryRun]]) -> QueueEntries:
    """The entries of some runs put in the order of the log; of those that point to one offset, the
    first."""
    runs = list(runs)
    if not runs:
        return QueueEntries(*(np.empty(0, np.int64) for _ in range(4)))
    queue = np.repeat(np.array([number for number, _ in runs], np.int64), [len(run) for _, run in runs])
    offsets = np.concatenate([run.offsets for _, run in runs])
    sizes = np.concatenate([run.sizes for _, run in runs])
    queue_offsets = np.concatenate([run.queue_offsets for _, run in runs])
    offsets, order = np.unique(offsets, return_index=True)
    return QueueEntries(offsets, sizes[order], queue_offsets[order], queue[order])


def _apart(starts: Int64s, ends: Int64s, end: int) -> tuple[Int64s, Int64s]:
    """The spans, in the order of their starts, that overlap no other one and do not go on behind
    `end`, each once."""
    new = np.append(True, (starts[1:] != starts[:-1]) | (ends[1:] != ends[:-1]))
    starts, ends = starts[new], ends[new]
    good = (ends <= end) & ~_overlapping(starts, ends)
    return starts[good], ends[good]


def _overlapping(starts: Int64s, ends: Int64s) -> Flags:
    """Which of some spans, in the order of their starts, overlap another one."""
    inside = starts[1:] < np.maximum.accumulate(ends)[:-1]  # It begins before all before it have ended.
    found: Flags = np.append(False, inside) | np.append(inside, False)
    return found
