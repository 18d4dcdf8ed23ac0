"""The small files of a recovered partition or log directory: metadata, checkpoints, the
clean-shutdown mark."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple

from logdex import limits
from logdex.errors import CorruptError, LogdexError, UnreadableError
from logdex.io.env import Env
from logdex.io.output_files import OutputFiles
from logdex.kafka.directory.partition_files import home_of
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import TopicPartition, format_checkpoint, read_offset_checkpoint
from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties, PartitionMetadata
from logdex.kafka.files.reader_positions import position_file, read_positions
from logdex.kafka.state.leader_epochs import EpochEntry, LeaderEpochs

_BOOTSTRAP = "bootstrap.checkpoint"

_DAMAGE = CorruptError, UnreadableError
"""Errors of a file that is damaged, or that the disk cannot read."""


class LogBounds(NamedTuple):
    """The base offset of the first segment of a new log, the log's end offset, and the log start
    offset that was stated for the old one."""

    base_offset: int
    next_offset: int
    start_offset: int


class SmallFiles:
    """Copies and writes small files below `directory`. `names` holds the files written, `notes`
    what could not be copied."""

    def __init__(self, directory: str, output: OutputFiles, env: Env) -> None:
        self.names: list[str] = []
        self.notes: list[str] = []
        self._directory = directory
        self._output = output
        self._env = env

    def put(self, name: str, data: bytes) -> None:
        """Writes a file."""
        self.names.append(name)
        self._output.put(f"{self._directory}/{name}", data)

    def copy(self, source: str, name: str, check: Callable[[str], object] | None = None) -> None:
        """Copies a file if it exists and `check` can read it."""
        if not self._env.is_file(source):
            return
        try:
            if check is not None:
                check(source)
            data = self._env.read_file(source, limits.CONFIG_FILE_SIZE_BYTES_MAX)
        except _DAMAGE as error:
            self.notes.append(f"{error.message}: not taken over")
            return
        self.put(name, data)

    def copy_partition_metadata(self, directory: str, copied: list[str], folder: str) -> None:
        """Copies `partition.metadata`, and the files `copied` of the `__cluster_metadata` log."""
        prefix = f"{folder}/" if folder else ""
        path = f"{directory}/{files.PARTITION_METADATA}"
        self.copy(path, prefix + files.PARTITION_METADATA, lambda at: PartitionMetadata.read(at, env=self._env))
        for name in copied:
            self.copy(f"{directory}/{name}", prefix + name)

    def stored_epochs(self, directory: str) -> list[EpochEntry]:
        """Returns the entries of a partition's leader epoch checkpoint, or none if it cannot be
        read."""
        path = f"{directory}/{files.LEADER_EPOCH_CHECKPOINT}"
        try:
            return LeaderEpochs.load(path, env=self._env).entries
        except _DAMAGE as error:
            self.notes.append(f"{error.message}: derived from the batches")
            return []

    def write_partition_start(self, directory: str, name: TopicPartition, bounds: LogBounds, *, in_place: bool) -> None:
        """Writes the log start offset of a partition by itself, if it is not that of its first
        segment. In place, only a checkpoint that cannot stay as it is."""
        home, is_lone = home_of(directory, env=self._env)
        before = len(self.notes)
        self._stored(home, files.LOG_START_CHECKPOINT)
        starts = {name: bounds.start_offset} if bounds.start_offset > bounds.base_offset else {}
        starts = self._bounded(files.LOG_START_CHECKPOINT, starts, {name: bounds.next_offset})
        if (is_lone and len(self.notes) > before) if in_place else starts:
            self._put_checkpoint(files.LOG_START_CHECKPOINT, starts)

    def copy_positions(self, directory: str, folder: str, next_offset: int, *, in_place: bool) -> None:
        """Copies the positions of a partition's named readers, at most the new log's end. In place,
        only if some cannot stay as they are."""
        before, problems = len(self.notes), list[LogdexError]()
        found = read_positions(directory, problems, env=self._env)
        self.notes += [f"{problem.message}: not taken over" for problem in problems]
        for name, position in found.items():
            if position > next_offset:
                told = f"the reader {name} was at {position}, the log now ends at {next_offset}"
                self.notes.append(f"{directory}: {told}")
        if not in_place or len(self.notes) > before:
            prefix = f"{folder}/" if folder else ""
            for name, position in found.items():
                file, data = position_file(name, min(position, next_offset))
                self.put(prefix + file, data)

    def write_log_dir(self, root: str, bounds: Mapping[TopicPartition, LogBounds]) -> None:
        """Writes a log directory's checkpoints, `meta.properties` and the mark of a clean
        shutdown."""
        ends = {name: bound.next_offset for name, bound in bounds.items()}
        self._put_checkpoint(files.RECOVERY_POINT_CHECKPOINT, ends)
        self._stored(root, files.LOG_START_CHECKPOINT)  # notes damage
        kept = {name: each.start_offset for name, each in bounds.items() if each.start_offset > each.base_offset}
        self._put_checkpoint(files.LOG_START_CHECKPOINT, self._bounded(files.LOG_START_CHECKPOINT, kept, ends))
        for checkpoint in (files.HIGH_WATERMARK_CHECKPOINT, files.CLEANER_CHECKPOINT):
            stored = self._stored(root, checkpoint)
            if stored or self._env.exists(posixpath.join(root, checkpoint)):
                self._put_checkpoint(checkpoint, self._bounded(checkpoint, stored, ends))
        meta = f"{root}/{files.META_PROPERTIES}"
        self.copy(meta, files.META_PROPERTIES, lambda at: MetaProperties.read(at, env=self._env))
        self.copy(f"{root}/{_BOOTSTRAP}", _BOOTSTRAP)
        self.put(files.CLEAN_SHUTDOWN, CleanShutdown().to_bytes())

    def _bounded(
        self, checkpoint: str, stored: dict[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        bounded = {name: min(offset, ends[name]) for name, offset in stored.items() if name in ends}
        for name, offset in bounded.items():
            if offset != stored[name]:
                self.notes.append(f"{checkpoint}: {name} said {stored[name]}, the log now ends at {offset}")
        return bounded

    def _stored(self, root: str, checkpoint: str) -> dict[TopicPartition, int]:
        try:
            return read_offset_checkpoint(f"{root}/{checkpoint}", env=self._env)
        except _DAMAGE as error:
            self.notes.append(f"{error.message}: its offsets are given up")
            return {}

    def _put_checkpoint(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.put(name, format_checkpoint([f"{at.topic} {at.partition} {offset}" for at, offset in offsets.items()]))
