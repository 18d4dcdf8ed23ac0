"""Writes the partitions of a new Kafka log directory, with offsets that are given."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.convert.open_logs import OpenLogs
from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Compression
from logdex.kafka.columns.encode_columns import iter_encoded
from logdex.kafka.directory.new_log_directory import make_log_directory
from logdex.kafka.files.checkpoints import TopicPartition, read_offset_checkpoint, write_offset_checkpoint
from logdex.kafka.files.file_names import CLEAN_SHUTDOWN, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from logdex.kafka.files.metadata_files import CleanShutdown
from logdex.kafka.log.log import Log

_CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)


@dataclass(slots=True)
class _State:
    """One partition: the offsets of the first record and after the last one, and by how much later
    offsets are moved up because a queue began anew."""

    first_offset: int = 0
    next_offset: int = -1
    shift: int = 0


class PartitionWriter:
    """Writes into `directory`, which is new. A context manager that closes all partitions cleanly.
    For one thread."""

    def __init__(self, directory: str, *, compression: Compression, env: Env) -> None:
        self.directory = directory
        self._compression = compression
        self._env = env
        self._states: dict[TopicPartition, _State] = {}
        self._logs = OpenLogs(lambda name: Log.open(f"{directory}/{name}", env=env), env)
        env.make_dirs(directory)
        make_log_directory(directory, env=env)

    @property
    def shifts(self) -> dict[TopicPartition, int]:
        """By how much the last offsets of each partition are higher than those that were given."""
        return {place: state.shift for place, state in self._states.items()}

    @property
    def begins(self) -> dict[TopicPartition, int]:
        """The offset of the first record of each partition."""
        return {place: state.first_offset for place, state in self._states.items()}

    @property
    def ends(self) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition."""
        return {place: state.next_offset for place, state in self._states.items()}

    def append(self, place: TopicPartition, records: pa.Table, offsets: npt.NDArray[np.int64]) -> None:
        """Appends records with their offsets. Where these do not rise, they and all that follow are
        moved up."""
        bounds = [0, *(np.flatnonzero(np.diff(offsets) != 1) + 1).tolist(), len(offsets)]
        state = self._states.setdefault(place, _State())
        for first, end in pairwise(bounds):
            begin = int(offsets[first]) + state.shift
            least = max(state.next_offset, 0)
            if begin < least:
                state.shift += least - begin
                begin = least
            log = self._logs.log(f"{place.topic}-{place.partition}")
            if state.next_offset < 0 and begin > 0:
                state.first_offset = begin
                log.truncate_fully_and_start_at(begin)
            for piece in iter_encoded(
                records.slice(first, end - first), base_offset=begin, compression=self._compression
            ):
                log.append_batches(piece.data.tobytes(), assign_offsets=False)
            state.next_offset = begin + end - first

    def __enter__(self) -> PartitionWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._logs.close()


def join_directories(folders: list[str], target: str, env: Env) -> int:
    """Moves the partitions of several log directories into a new one, with their checkpoints.
    Returns how many there are. Raises `UsageError` if two have one name."""
    env.make_dirs(target)
    merged: dict[str, dict[TopicPartition, int]] = {name: {} for name in _CHECKPOINTS}
    count = 0
    for folder in folders:
        for name in _CHECKPOINTS:
            merged[name] |= read_offset_checkpoint(f"{folder}/{name}", env=env)
        for name in env.list_dir(folder):
            if env.is_dir(f"{folder}/{name}"):
                if env.exists(f"{target}/{name}"):
                    raise UsageError(f"two topics become {name.rpartition('-')[0]}", hint="convert one with --topic")
                env.rename(f"{folder}/{name}", f"{target}/{name}")
                count += 1
    for name, offsets in merged.items():
        write_offset_checkpoint(posixpath.join(target, name), offsets, env=env)
    CleanShutdown().write(f"{target}/{CLEAN_SHUTDOWN}", env=env)
    return count
