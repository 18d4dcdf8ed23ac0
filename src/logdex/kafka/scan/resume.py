"""Decides where reading resumes after damage. All readers of a log, `verify` and `recover` use
this.

A record's value may hold a log, that is, whole batches with right checksums that are not batches of
this log. So the next batch that looks right is not always the next one of the log. `LogResume`
first determines where the damaged batch ends, and resumes there. Only if that is impossible, it
searches the first run of whole batches that does not end within a value. For the reasons see
``docs/design/0016-behind-damage-kafka.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import take_unreadable
from logdex.io.mapped.partly_loaded import load
from logdex.kafka.scan.batch_runs import BatchRun, BatchRuns, is_whole_batch
from logdex.kafka.scan.damaged_batch import MAGICS, DamagedBatch, WorkBudget
from logdex.kafka.scan.enclosing_record import enclosing_end
from logdex.kafka.scan.index_evidence import IndexEvidence
from logdex.kafka.scan.scanner import EndKind, ScanEnd, only_zeros
from logdex.layout.kafka import LEGACY_RECORD_V0, RECORD_BATCH

_WORK = 64
_WORK_BYTES_MIN = 1 << 20
_HEADER_SIZE_MIN = LEGACY_RECORD_V0.size_bytes + 8
_RUNS_TRIED = 16
"""The number of runs that are tried as the end of a batch with a damaged length. The batch's values
may hold other runs before its end."""


class Resumed(NamedTuple):
    """The position where the next batch of the log begins, or -1 if there is none.

    `doubtful` are runs of whole batches before it, or before the end of the log, that may belong to
    the log or lie in a value; nothing decides which.
    """

    position: int
    doubtful: tuple[BatchRun, ...] = ()


class LogResume:
    """Decides where reading of the log `data` resumes. `path` is that of its .log; the .index
    beside it is used if the log alone does not decide.

    The result for a position does not depend on where reading began. Only crafted bytes can exhaust
    the budget of 64 times the log's bytes; after that no batch is found. Not thread-safe; positions
    must be given from front to back.
    """

    def __init__(self, data: ByteArray, path: str = "", env: Env = DEFAULT_ENV) -> None:
        self._data = data
        self._runs = BatchRuns(data)
        self._budget = WorkBudget(max(_WORK * data.size, _WORK_BYTES_MIN))
        self._index = IndexEvidence(path, env)

    def behind(self, end: ScanEnd) -> Resumed:
        """Returns where reading resumes after the end of a scan; nowhere after the log's end, or
        after zeros up to it. If nothing follows damage, but the search met bytes that cannot be
        read, the mapping has faults: something may follow."""
        if end.kind in (EndKind.END, EndKind.ZEROS):
            return Resumed(-1)
        load(self._data, end.position)
        resumed = self._behind_batch(end.position)
        if end.is_unreadable or resumed.position >= 0:
            take_unreadable(self._data)  # they stay known as such: the scan that comes to them tells of them
        return resumed

    def _behind_batch(self, position: int) -> Resumed:
        self._runs.forget_before(position)
        damaged, end = self._follow(position)
        if end < 0:
            first = self._runs.first_behind(position)
            if first is not None and first.start < position + _HEADER_SIZE_MIN:
                return Resumed(first.start)  # no batch around it would have room for its header
            return self._search(damaged)
        if end > self._data.size:
            return Resumed(-1, tuple(self._runs.all_behind(damaged.position)))
        return Resumed(end if is_whole_batch(self._data, end) else -1)

    def _follow(self, position: int) -> tuple[DamagedBatch, int]:
        """Follows damaged batches as long as their ends are known.

        Returns the last one and its end. The end is where a whole batch begins or the log ends, or
        lies after the log's end if the batch is cut off; it is -1 if it is unknown.
        """
        while True:
            damaged = DamagedBatch(self._data, position, self._budget)
            end = self._end_of(damaged)
            is_last = not 0 <= end < self._data.size or is_whole_batch(self._data, end)
            if is_last or only_zeros(self._data, end):
                return damaged, end
            position = end

    # -- where a damaged batch ends ---------------------------------------------------------------
    def _end_of(self, damaged: DamagedBatch) -> int:
        """Returns the end of a damaged batch, which lies after the log's end if the batch is cut
        off; -1 if it is unknown."""
        magic, stated = damaged.magic if damaged.magic in MAGICS else MAGICS[0], damaged.stated_end
        for each in sorted(MAGICS, key=lambda each: each != magic):
            for end in {damaged.records_end(each), stated}:
                if damaged.ends_at(end, each):
                    return end
        if self._is_next(damaged, stated):
            return stated
        if not damaged.is_agreed():
            for end in chain(islice(self._starts(damaged.position), _RUNS_TRIED), [self._data.size]):
                if damaged.ends_at(end, magic):
                    return end
        return stated if self._is_credible(damaged) else -1

    def _is_next(self, damaged: DamagedBatch, position: int) -> bool:
        """Whether the first whole batch after a damaged one begins at `position`, and either its
        offset is the next one or the damaged batch's lengths agree on that position."""
        if not is_whole_batch(self._data, position) or self._runs.start_behind(damaged.position) != position:
            return False
        following = DamagedBatch(self._data, position, self._budget)
        return damaged.is_agreed() or following.base_offset == damaged.next_offset

    def _is_credible(self, damaged: DamagedBatch) -> bool:
        """Whether the log after the batch can begin at the end that the length field states."""
        stated = damaged.stated_end
        run = self._runs.at(stated)
        if run is not None:
            return self._goes_on(run) or run.first_offset == damaged.next_offset
        if stated < 0 or self._runs.over(stated) is not None:
            return False
        return self._leads_on(stated) or damaged.is_plausible()

    def _goes_on(self, run: BatchRun) -> bool:
        """Whether a run reaches the end of the log or a damaged batch."""
        behind = DamagedBatch(self._data, run.end, self._budget)
        return self._is_at_end(run.end) or (behind.is_plausible() and behind.base_offset > run.last_offset)

    def _is_at_end(self, position: int) -> bool:
        """Whether only zeros follow. A few zeros are the end of a record rather than of a log."""
        rest = self._data.size - position
        return rest == 0 or (rest >= RECORD_BATCH.size_bytes and only_zeros(self._data, position))

    def _leads_on(self, end: int) -> bool:
        """Whether the log ends at a position, or continues there with a damaged batch."""
        if not 0 <= end <= self._data.size:
            return False
        return self._is_at_end(end) or DamagedBatch(self._data, end, self._budget).is_plausible()

    # -- the search for a run that is of the log --------------------------------------------------
    def _search(self, damaged: DamagedBatch) -> Resumed:
        doubtful: list[BatchRun] = []
        checked = -1
        for run in self._not_enclosed(damaged):
            if run.start > checked:
                is_of_the_log, checked = self._leads_to_the_end(run)
                if is_of_the_log:
                    return Resumed(run.start, tuple(doubtful))
            doubtful.append(run)
        return Resumed(-1, tuple(doubtful))

    def _not_enclosed(self, damaged: DamagedBatch) -> Iterator[BatchRun]:
        """Yields the runs after the start of a damaged batch that do not lie in its records."""
        run = self._runs.first_behind(damaged.position)
        while run is not None:
            end = enclosing_end(self._data, damaged, run)
            if end < 0:
                yield run
            # a message ends with its value, so the batches behind it continue the same run
            run = self._runs.first_behind((end if run.start < end < run.end else run.end) - 1)

    def _leads_to_the_end(self, run: BatchRun) -> tuple[bool, int]:
        """Whether a run belongs to the log: it leads to the end of the file, over damaged batches
        whose ends are known, or the .index names one of the batches on the way. Batches in a value
        are followed by other bytes.

        Also returns the start of the last run for which this answer holds.
        """
        while not self._is_at_end(run.end):
            if self._index.bears_out(self._data, run):
                break
            _, end = self._follow(run.end)
            if end > self._data.size or (end >= 0 and self._is_at_end(end)):
                break
            following = self._runs.at(end)
            if following is None or following.first_offset <= run.last_offset:
                return False, run.start
            run = following
        return True, run.start

    def _starts(self, position: int) -> Iterator[int]:
        """Yields the starts of the runs after a position."""
        start = self._runs.start_behind(position)
        while start >= 0:
            yield start
            run = self._runs.first_behind(start - 1)
            start = -1 if run is None else self._runs.start_behind(run.end - 1)
