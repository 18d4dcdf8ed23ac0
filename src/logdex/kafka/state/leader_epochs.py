"""`leader-epoch-checkpoint`: the offset at which each leader epoch begins.

Source: ``docs/formats/kafka-log-directory.md``; Kafka's LeaderEpochFileCache,
LeaderEpochCheckpointFile.
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
    """An epoch and its start offset: the base offset of its first batch."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """The leader epochs of a partition, increasing in epoch and start offset. Not thread-safe.

    Changes are in memory until `save`.
    """

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
        """The highest epoch, or None."""
        return self._entries[-1].epoch if self._entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        """The first entry, or None."""
        return self._entries[0] if self._entries else None

    @property
    def previous_epoch(self) -> int | None:
        """The epoch before the latest one, or None."""
        return self._entries[-2].epoch if len(self._entries) > 1 else None

    # -- writing ----------------------------------------------------------------------------------
    def assign(self, epoch: int, start_offset: int) -> bool:
        """Records that `epoch` begins at `start_offset`, and returns whether that changed anything.

        Removes the entries with a higher or equal epoch or start offset, which contradict it.
        """
        if epoch < 0 or start_offset < 0:
            raise UsageError(f"epoch {epoch} and start offset {start_offset} must not be negative")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start_offset >= entries[-1].start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def add(self, columns: BatchColumns) -> bool:
        """Adds the batches of a window and returns whether that changed anything.

        An entry is made for each batch of magic 2 whose epoch is above all earlier ones.
        """
        epochs = np.where(columns.magic >= MAGIC_V2, columns.leader_epoch, UNDEFINED_EPOCH).astype(np.int64)
        latest = UNDEFINED_EPOCH if self.latest_epoch is None else self.latest_epoch
        highest_before = np.maximum.accumulate(np.append(latest, epochs))[:-1]
        changed = False
        for place in np.flatnonzero(epochs > highest_before).tolist():
            changed |= self.assign(int(epochs[place]), int(columns.base_offset[place]))
        return changed

    def clear(self) -> None:
        """Removes all entries."""
        self._entries.clear()

    def truncate_from_end(self, end_offset: int) -> bool:
        """Removes the epochs that begin at `end_offset` or above, and returns whether there were
        any."""
        before = len(self._entries)
        while end_offset >= 0 and self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
        return len(self._entries) < before

    def truncate_from_start(self, start_offset: int) -> bool:
        """Removes the epochs that end at `start_offset` or below.

        The epoch at `start_offset` then begins there. Returns whether any epoch begins at or below
        `start_offset`.
        """
        begun = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if begun:
            self._entries[: len(begun)] = [EpochEntry(begun[-1].epoch, start_offset)]
        return bool(begun)

    # -- asking -----------------------------------------------------------------------------------
    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Answers a follower's question: (largest known epoch of at most `epoch`, its end offset).

        (-1, -1) if that is unknown. For an epoch below all known ones: (`epoch`, start offset of
        the first known epoch).
        """
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
        """The epoch of the batch at `offset`, even a future one; None before the first epoch."""
        return next((entry.epoch for entry in reversed(self._entries) if entry.start_offset <= offset), None)

    # -- the file ---------------------------------------------------------------------------------
    @staticmethod
    def load(path: str, *, env: Env = DEFAULT_ENV) -> LeaderEpochs:
        """Reads the file at `path`; a missing file has no epochs.

        Raises `CorruptError`, with line and byte position, for a malformed file.
        """
        epochs = LeaderEpochs()
        for line in read_checkpoint_lines(path, env=env):
            fields = line.text.split()
            if len(fields) != 2:
                raise malformed(path, line, "epoch start-offset")
            epochs.assign(checked_number(path, line, fields[0], 31), checked_number(path, line, fields[1], 63))
        return epochs

    def to_bytes(self) -> bytes:
        """The file's bytes. The file is empty if there are no epochs."""
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in self._entries]
        return format_checkpoint(lines) if lines else b""

    def save(self, path: str, *, env: Env = DEFAULT_ENV) -> None:
        """Replaces the file at `path`."""
        write_atomically(path, self.to_bytes(), env=env)


def derive_leader_epochs(windows: Iterable[BatchColumns]) -> bytes:
    """The file's bytes for a partition whose batches are those of `windows`."""
    epochs = LeaderEpochs()
    for columns in windows:
        epochs.add(columns)
    return epochs.to_bytes()
