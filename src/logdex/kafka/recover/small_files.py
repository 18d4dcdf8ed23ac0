"""The small files of a recovered partition or log directory: metadata, checkpoints, the
clean-shutdown mark."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple

from logdex import limits
from logdex.errors import CorruptError, UnreadableError
from logdex.io.env import Env
from logdex.io.output_files import OutputFiles
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import TopicPartition, format_checkpoint, read_offset_checkpoint
from logdex.kafka.files.metadata_files import CleanShutdown, MetaProperties, PartitionMetadata
from logdex.kafka.state.leader_epochs import EpochEntry, LeaderEpochs

_BOOTSTRAP = "bootstrap.checkpoint"

_DAMAGE = CorruptError, UnreadableError
"""Errors of a file that is damaged, or that the disk cannot read."""


class LogBounds(NamedTuple):
    """The base offset of the first segment of a new log, and the log's end offset."""

    base_offset: int
    next_offset: int


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

    def log_start_offset(self, home: str, name: TopicPartition | None) -> int:
        """Returns a partition's log start offset in the checkpoint in `home`, or 0 if it states
        none."""
        try:
            starts = read_offset_checkpoint(f"{home}/{files.LOG_START_CHECKPOINT}", env=self._env)
        except _DAMAGE:  # noted when the checkpoints are written
            return 0
        return starts.get(name, 0) if name is not None else 0

    def write_log_dir(self, root: str, bounds: Mapping[TopicPartition, LogBounds]) -> None:
        """Writes a log directory's checkpoints, `meta.properties` and the mark of a clean
        shutdown."""
        ends = {name: bound.next_offset for name, bound in bounds.items()}
        self._put_checkpoint(files.RECOVERY_POINT_CHECKPOINT, ends)
        starts = self._stored(root, files.LOG_START_CHECKPOINT)
        kept = {name: offset for name, offset in starts.items() if name in bounds and offset > bounds[name].base_offset}
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
