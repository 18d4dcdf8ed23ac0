"""Runs of batches with the same leader epoch, from which a partition's leader epochs are derived.

No CRC covers a batch's leader epoch. A single batch whose epoch is not between those of its
neighbours is damaged, and must not add an epoch that never existed. Epochs increase along the log
from its log start offset on. Batches before the log start offset may have later epochs, if the log
was truncated to its start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import MAGIC_V2


@dataclass(slots=True)
class EpochRun:
    """`batches` consecutive batches of one epoch. The first is at `position` of the .log at `path`.

    `start_offset` and `last_start_offset` are the base offsets of the first and last batch,
    `last_offset` is the last batch's last offset.
    """

    epoch: int
    start_offset: int
    last_start_offset: int
    last_offset: int
    batches: int
    path: str
    position: int


class EpochRuns:
    """The runs of a partition, given its windows in order. For one thread.

    A run ends at the log start offset. Memory is proportional to the number of runs.
    """

    def __init__(self, log_start_offset: int = 0) -> None:
        self.runs: list[EpochRun] = []
        self._log_start_offset = log_start_offset

    def add(self, columns: BatchColumns, path: str) -> None:
        """Adds a window of good batches. Batches of magic 0 and 1 have no epoch."""
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
        """(valid runs, single batches whose epoch is damaged)."""
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
        """The leader epochs of the valid runs.

        An entry is made where an epoch is above all earlier ones, and at the log start offset.
        """
        epochs = LeaderEpochs()
        was_below = True
        for run in self.sort_out()[0]:
            is_first = was_below and not self._is_below(run)
            if epochs.latest_epoch is None or run.epoch > epochs.latest_epoch or is_first:
                epochs.assign(run.epoch, run.start_offset)
            was_below = self._is_below(run)
        return epochs
