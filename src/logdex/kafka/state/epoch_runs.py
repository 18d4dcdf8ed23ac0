"""Runs of batches with the same leader epoch: what a log says of its epochs, one flipped bit left out.

No checksum covers a batch's leader epoch. A single batch whose epoch does not lie between those of its neighbours is
harmed; a fold that believed it would tell brokers of an epoch that never was. Epochs rise along a log, which begins at
its start offset: batches that still lie before that may be of later epochs, where the log was cut back to its start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import MAGIC_V2


@dataclass(slots=True)
class EpochRun:
    """`batches` batches in a row of one epoch; the first is at `position` of the .log at `path`. Offsets are base
    offsets of the first and the last batch, `last_offset` is the last one's end."""

    epoch: int
    start_offset: int
    last_start_offset: int
    last_offset: int
    batches: int
    path: str
    position: int


class EpochRuns:
    """The runs of a partition, given its windows in order. A run ends at the log's start. Memory: the runs. One
    thread."""

    def __init__(self, log_start_offset: int = 0) -> None:
        self.runs: list[EpochRun] = []
        self._log_start_offset = log_start_offset

    def add(self, columns: BatchColumns, path: str) -> None:
        """Takes a window of good batches; those of magic 0 and 1 have no epoch."""
        places = np.flatnonzero((columns.magic >= MAGIC_V2) & (columns.leader_epoch >= 0))
        if not len(places):
            return
        epochs, is_below = columns.leader_epoch[places], columns.last_offset[places] < self._log_start_offset
        starts = np.flatnonzero(np.append(True, (epochs[1:] != epochs[:-1]) | (is_below[1:] != is_below[:-1])))
        counts = np.diff(np.append(starts, len(places)))
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            place, epoch = int(places[start]), int(epochs[start])
            last_place = places[start + count - 1]
            last, end = int(columns.base_offset[last_place]), int(columns.last_offset[last_place])
            if self.runs and self.runs[-1].epoch == epoch and self._is_below(self.runs[-1]) == is_below[start]:
                self.runs[-1].batches += count
                self.runs[-1].last_start_offset, self.runs[-1].last_offset = last, end
            else:
                at = int(columns.base_offset[place])
                self.runs.append(EpochRun(epoch, at, last, end, count, path, int(columns.position[place])))

    def _is_below(self, run: EpochRun) -> bool:
        return run.last_offset < self._log_start_offset

    def sort_out(self) -> tuple[list[EpochRun], list[EpochRun]]:
        """(the runs to believe, single batches whose epoch is harmed)."""
        good: list[EpochRun] = []
        harmed: list[EpochRun] = []
        for side in (True, False):
            self._sort_out([run for run in self.runs if self._is_below(run) is side], good, harmed)
        return good, harmed

    def _sort_out(self, runs: list[EpochRun], good: list[EpochRun], harmed: list[EpochRun]) -> None:
        before = -1
        for place, run in enumerate(runs):
            behind = runs[place + 1].epoch if place + 1 < len(runs) else None
            is_between = before <= run.epoch and (behind is None or run.epoch <= behind)
            if run.batches == 1 and not is_between and (behind is None or before <= behind):
                harmed.append(run)
            else:
                good.append(run)
                before = run.epoch

    def to_leader_epochs(self) -> LeaderEpochs:
        """The epochs that the believed runs tell of: an entry where an epoch is above all before, and where the log
        starts."""
        epochs = LeaderEpochs()
        was_below = True
        for run in self.sort_out()[0]:
            is_first = was_below and not self._is_below(run)
            if epochs.latest_epoch is None or run.epoch > epochs.latest_epoch or is_first:
                epochs.assign(run.epoch, run.start_offset)
            was_below = self._is_below(run)
        return epochs
