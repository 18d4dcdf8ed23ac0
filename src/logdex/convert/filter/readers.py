"""The positions of the named readers of partitions whose records are written anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from logdex.errors import LogdexError
from logdex.io.env import Env
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.reader_positions import read_positions, write_position
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot


class MovedReaders:
    """Where the named readers of partitions are in a new log directory. A reader stays behind the
    records that it has read, whatever offsets they get. `notes` tell of positions that cannot be
    read."""

    def __init__(self, partitions: Iterable[PartitionSnapshot], env: Env) -> None:
        problems: list[LogdexError] = []
        self._env = env
        self._found: dict[TopicPartition, dict[str, int]] = {}
        self._moved: dict[TopicPartition, dict[str, int]] = {}
        for each in partitions:
            if each.path == each.directory:  # one file is not what its partition's readers read
                place = TopicPartition(each.topic, each.partition)
                self._found[place] = read_positions(each.directory, problems, env=env)
        self.notes = [f"{problem.message}: not taken over" for problem in problems]

    def add(self, place: TopicPartition, before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> None:
        """Notes the offsets of the next records of a partition, before and after."""
        moved = self._moved.setdefault(place, {})
        for name, position in self._found.get(place, {}).items():
            read = np.flatnonzero(before < position)
            if len(read):
                moved[name] = int(after[read[-1]]) + 1

    def write(self, directory: str, ends: Mapping[TopicPartition, int], *, new_offsets: bool) -> list[str]:
        """Writes the positions into the partitions of a log directory, which end at `ends`. Without
        `new_offsets` they stay as they are, up to the end. Returns notes on partitions that are not
        there."""
        notes = []
        for place, positions in self._found.items():
            if positions and place not in ends:
                names = ", ".join(sorted(positions))
                notes.append(f"{place.topic}-{place.partition} has no records now: its readers left out: {names}")
                continue
            for name, position in positions.items():
                moved = self._moved[place].get(name, 0) if new_offsets else min(position, ends[place])
                write_position(f"{directory}/{place.topic}-{place.partition}", name, moved, env=self._env)
        return notes
