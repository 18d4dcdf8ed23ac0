"""Writes a partition from its pieces: segments whose batches keep their bytes, and all derived
files.

Segments keep their base offsets as far as their batches allow it. A new segment begins where an
offset or a position would not fit. Derived files are computed by the folds that append and recovery
use, in one scan of the written log. That scan also proves that the log can be read.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field

from logdex import limits
from logdex.errors import OffsetOrderError, OffsetOverflowError, ProducerStateError, UnreadableError, VanishedError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.output_files import OutputFiles
from logdex.kafka.files.file_names import (
    INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    LOST_AND_FOUND,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
)
from logdex.kafka.recover.partition_scan import OnRead, Piece, batches_of
from logdex.kafka.segment.segment_recovery import derive_segment
from logdex.kafka.segment.transaction_index import AbortedTxn, derive_transaction_index
from logdex.kafka.state.epoch_runs import EpochRuns
from logdex.kafka.state.leader_epochs import EpochEntry
from logdex.kafka.state.producer_snapshot import derive_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates, aborted_of
from logdex.kernels.kafka.batch_columns import BatchColumns

_COPY_BYTES = 8 << 20


@dataclass(slots=True)
class NewSegment:
    """A segment to write: its base offset and its pieces."""

    base_offset: int
    pieces: list[Piece] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The size of its log in bytes."""
        return sum(piece.end - piece.start for piece in self.pieces)

    @property
    def next_offset(self) -> int:
        """The offset behind its last batch."""
        return self.pieces[-1].last_offset + 1 if self.pieces else self.base_offset

    @property
    def is_beginning(self) -> bool:
        """Whether its log is the beginning of the .log that has its name, or all of it."""
        name = offset_file_name(self.base_offset, LOG_SUFFIX)
        return [(piece.start, posixpath.basename(piece.source.path)) for piece in self.pieces] == [(0, name)]

    def changed(self) -> VanishedError:
        """The error of a segment whose copy is not what was scanned."""
        path = self.pieces[0].source.path if self.pieces else ""
        return VanishedError("a broker replaced the segment while it was copied", path=path)


def plan_segments(pieces: list[Piece], empty_base: int | None, env: Env) -> list[NewSegment]:
    """Returns the segments for rising pieces. `empty_base` is the base offset of an empty active
    segment after them, or None."""
    segments: list[NewSegment] = []
    for piece in pieces:
        for part in _fitting(piece, env):
            active = segments[-1] if segments else None
            if active is None or not _fits(active, part):
                active = NewSegment(_base_for(part, active))
                segments.append(active)
            active.pieces.append(part)
    last = pieces[-1].last_offset if pieces else -1
    if empty_base is not None and empty_base > last:
        segments.append(NewSegment(empty_base))
    return segments


def _fits(active: NewSegment, piece: Piece) -> bool:
    """Whether the piece can be appended to that segment: it is of the same file, and its offsets
    and size fit."""
    same = active.pieces[-1].source.base_offset == piece.source.base_offset or (
        piece.source.base_offset <= active.base_offset
    )
    reach = piece.last_offset - active.base_offset <= limits.RELATIVE_OFFSET_MAX
    return same and reach and active.size_bytes + piece.end - piece.start <= limits.SEGMENT_SIZE_BYTES_MAX


def _base_for(piece: Piece, before: NewSegment | None) -> int:
    """Returns the base offset of the piece's file if it lies between what is written and the piece,
    else the piece's first offset."""
    base = piece.source.base_offset
    least = before.pieces[-1].last_offset + 1 if before is not None else 0
    reaches = piece.last_offset - base <= limits.RELATIVE_OFFSET_MAX
    return base if least <= base <= piece.first_offset and reaches else piece.first_offset


def _fitting(piece: Piece, env: Env) -> list[Piece]:
    """Returns the piece, or its single batches if it spans more offsets than a segment can hold."""
    base = min(piece.source.base_offset, piece.first_offset)
    return [piece] if piece.last_offset - base <= limits.RELATIVE_OFFSET_MAX else list(batches_of(piece, env))


class PartitionWriter:
    """Writes one partition into `directory`. Not thread-safe."""

    def __init__(
        self,
        directory: str,
        files: OutputFiles,
        env: Env,
        *,
        index_interval_bytes: int,
        with_state: bool = True,
        on_read: OnRead | None = None,
    ) -> None:
        self.notes: list[str] = []
        self.names: list[str] = []
        self.next_offset = 0
        self._directory = directory
        self._files = files
        self._env = env
        self._interval = index_interval_bytes
        self._with_state = with_state
        self._on_read = on_read
        self._states = ProducerStates()

    def write(self, segments: list[NewSegment], stored_epochs: list[EpochEntry], log_start_offset: int) -> None:
        """Writes all segments and the files derived from them. `log_start_offset` is the
        checkpointed one, or 0 without one."""
        self._runs = EpochRuns(log_start_offset)
        self._env.make_dirs(self._directory)
        for number, segment in enumerate(segments):
            if number and self._with_state:
                self._put(
                    offset_file_name(segment.base_offset, SNAPSHOT_SUFFIX), derive_producer_snapshot(self._states)
                )
            self._write_log(segment)
            self._derive(segment)
        if not self._with_state:
            return
        if self.next_offset > 0:
            self._put(offset_file_name(self.next_offset, SNAPSHOT_SUFFIX), derive_producer_snapshot(self._states))
        self._write_epochs(stored_epochs, log_start_offset)
        for first, producer in self._states.ongoing_transactions.items():
            self.notes.append(
                f"{self._directory}: producer {producer}'s transaction from offset {first} on has no end in the log: "
                "readers of committed records stop there until it is aborted"
            )

    def write_aside(self, pieces: list[Piece]) -> dict[Piece, str]:
        """Saves batches that have no place in the log. Returns the name of the file per piece."""
        names: dict[Piece, str] = {}
        sizes: dict[str, int] = {}
        for piece in pieces:
            name = names[piece] = f"{LOST_AND_FOUND}/{offset_file_name(piece.source.base_offset, LOG_SUFFIX)}"
            sizes[name] = sizes.get(name, 0) + piece.end - piece.start
        ends = dict.fromkeys(sizes, 0)
        for piece, name in names.items():
            ends[name] = self._copy(piece, name, ends[name], sizes[name])
        self.names += sizes
        return names

    def _write_log(self, segment: NewSegment) -> None:
        name = offset_file_name(segment.base_offset, LOG_SUFFIX)
        size, position = segment.size_bytes, 0
        if not segment.pieces:
            self._put(name, b"")
            return
        self.names.append(name)
        for piece in segment.pieces:
            position = self._copy(piece, name, position, size)

    def _copy(self, piece: Piece, name: str, position: int, size_bytes: int) -> int:
        """Copies a piece's bytes to `position` of a file of `size_bytes`. Returns the position
        after them."""
        with self._env.open_read(piece.source.path) as source:
            for at in range(piece.start, piece.end, _COPY_BYTES):
                data = source.read_at(at, min(_COPY_BYTES, piece.end - at))
                if len(data) < min(_COPY_BYTES, piece.end - at):
                    raise UnreadableError(
                        path=source.path, position=at + len(data), end_position=piece.end, size_bytes=at + len(data)
                    )
                self._files.write_at(f"{self._directory}/{name}", size_bytes, position, data)
                position += len(data)
                if self._on_read is not None:
                    self._on_read(0, len(data))
        return position

    def _derive(self, segment: NewSegment) -> None:
        base, aborted = segment.base_offset, list[AbortedTxn]()
        path = f"{self._directory}/{offset_file_name(base, LOG_SUFFIX)}"

        def take(columns: BatchColumns) -> None:
            if not self._with_state:
                return
            self._runs.add(columns, path)
            try:
                aborted.extend(aborted_of(self._states.add(columns)))
            except ProducerStateError as error:
                self.notes.append(f"{path}: what the log tells of producers may not be all: {error}")

        try:
            derived = derive_segment(path, base, self._interval, on_columns=take, env=self._env)
        except (OffsetOrderError, OffsetOverflowError) as error:
            raise segment.changed() from error
        if (derived.size_bytes, derived.next_offset) != (segment.size_bytes, segment.next_offset):
            raise segment.changed()
        self._put(offset_file_name(base, INDEX_SUFFIX), derived.offset_index)
        self._put(offset_file_name(base, TIME_INDEX_SUFFIX), derived.time_index)
        if aborted:
            self._put(offset_file_name(base, TXN_INDEX_SUFFIX), derive_transaction_index(aborted))
        self.next_offset = derived.next_offset

    def _write_epochs(self, stored: list[EpochEntry], log_start_offset: int) -> None:
        """Writes the epochs of the batches from the log's start on, and later ones that only the
        checkpoint holds."""
        epochs = self._runs.to_leader_epochs()
        good, harmed = self._runs.sort_out()
        for run in harmed:
            self.notes.append(
                f"{run.path}: byte {run.position}: a batch of leader epoch {run.epoch} among others: not believed"
            )
        latest = max((run.epoch for run in good), default=-1)
        last_offset = max((run.last_offset for run in good), default=-1)
        for entry in stored:
            # Loading the log drops others; no batch behind an epoch's start is of an earlier one.
            if entry.epoch > latest and last_offset < entry.start_offset < self.next_offset:
                epochs.assign(*entry)
                latest = entry.epoch
        epochs.truncate_from_start(min(log_start_offset, self.next_offset))
        self._put(LEADER_EPOCH_CHECKPOINT, epochs.to_bytes())

    def _put(self, name: str, data: bytes | ByteArray) -> None:
        self.names.append(name)
        self._files.put(f"{self._directory}/{name}", data)
