"""`leader-epoch-checkpoint`: from which offset on each leader epoch wrote.

Source: ``docs/formats/kafka-log-directory.md``; Kafka's LeaderEpochFileCache, LeaderEpochCheckpointFile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from logdex.errors import UsageError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.files.checkpoints import checked_number, format_checkpoint, malformed, read_checkpoint_lines
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import MAGIC_V2

UNDEFINED_EPOCH = -1
UNDEFINED_EPOCH_OFFSET = -1


class EpochEntry(NamedTuple):
    """An epoch and the offset of the first batch that may bear it."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The epochs of a partition, rising in epoch and offset. In memory; `save` writes them. One thread at a time."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(*entry)

    @property
    def entries(self) -> list[EpochEntry]:
        """All entries, earliest first."""
        return list(self._entries)

    @property
    def latest_epoch(self) -> int | None:
        """The highest epoch."""
        return self._entries[-1].epoch if self._entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The first entry."""
        return self._entries[0] if self._entries else None

    @property
    def previous_epoch(self) -> int | None:
        """The epoch before the latest one."""
        return self._entries[-2].epoch if len(self._entries) > 1 else None

    # -- writing -------------------------------------------------------------------------------------------------------
    def assign(self, epoch: int, start_offset: int) -> bool:
        """Says that `epoch` begins at `start_offset`; whether that changed anything. Entries that contradict it, by a
        higher epoch or offset, go: what is said last is true."""
        if epoch < 0 or start_offset < 0:
            raise UsageError(f"epoch {epoch} from offset {start_offset} on: neither can be negative")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def add(self, columns: BatchColumns) -> bool:
        """Takes in the batches of a window of the log: an entry at each of magic 2 whose epoch is above all before;
        whether that changed anything."""
        epochs = np.where(columns.magic >= MAGIC_V2, columns.leader_epoch, UNDEFINED_EPOCH).astype(np.int64)
        latest = UNDEFINED_EPOCH if self.latest_epoch is None else self.latest_epoch
        highest_before = np.maximum.accumulate(np.append(latest, epochs))[:-1]
        changed = False
        for place in np.flatnonzero(epochs > highest_before).tolist():
            changed |= self.assign(int(epochs[place]), int(columns.base_offset[place]))
        return changed

    def clear(self) -> None:
        """Forgets all epochs."""
        self._entries.clear()

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drops the epochs that begin at `end_offset` or above; whether there were any."""
        before = len(self._entries)
        while end_offset >= 0 and self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        return len(self._entries) < before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Drops the epochs that end at `start_offset` or below; the one that goes on over it begins there then.
        Whether there were any that begin at or below it."""
        begun = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if begun:
            self._entries[: len(begun)] = [EpochEntry(begun[-1].epoch, start_offset)]
        return bool(begun)

    # -- asking --------------------------------------------------------------------------------------------------------
    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest known epoch not above `epoch`, the offset where it ends), as followers ask; (-1, -1) where
        nothing can be said. For an epoch below all known ones: (itself, where the first known one begins)."""
        undefined = (UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)
        if epoch == UNDEFINED_EPOCH:
            return undefined
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = next((entry for entry in self._entries if entry.epoch > epoch), None)
        if higher is None:
            return undefined
        known = [entry.epoch for entry in self._entries if entry.epoch <= epoch]
        return (known[-1] if known else epoch), higher.start_offset

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch under which `offset` was or will be written; None below the first one."""
        return next((entry.epoch for entry in reversed(self._entries) if entry.start_offset <= offset), None)

    # -- the file ------------------------------------------------------------------------------------------------------
    @staticmethod
    def load(path: str, *, env: Env = DEFAULT_ENV) -> LeaderEpochs:
        """The epochs in the file at `path`; none for a missing file. `CorruptError` names line and byte."""
        epochs = LeaderEpochs()
        for line in read_checkpoint_lines(path, env=env):
            fields = line.text.split()
            if len(fields) != 2:
                raise malformed(path, line, "epoch start-offset")
            epochs.assign(checked_number(path, line, fields[0], 31), checked_number(path, line, fields[1], 63))
        return epochs

    def to_bytes(self) -> bytes:
        """The file's bytes; the file of a partition that knows no epoch has none."""
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in self._entries]
        return format_checkpoint(lines) if lines else b""

    def save(self, path: str, *, env: Env = DEFAULT_ENV) -> None:
        """Replaces the file at `path`."""
        write_atomically(path, self.to_bytes(), env=env)


def derive_leader_epochs(windows: Iterable[BatchColumns]) -> bytes:
    """The file's bytes for a log whose batches are those of `windows`."""
    epochs = LeaderEpochs()
    for columns in windows:
        epochs.add(columns)
    return epochs.to_bytes()
