"""Reads from a partition's files, without repairing them, where the log ends and which transactions
are open.

Only headers are read and no checksum is checked, as in a broker after a clean shutdown. After
damage, reading resumes as for all readers (`logdex.kafka.scan.resume`), so the end is that of the
readable log.

Source: Kafka's LogLoader, UnifiedLog.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

import numpy as np

from logdex.errors import CorruptError, LogdexError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.partly_loaded import load
from logdex.kafka.files.file_names import SNAPSHOT_SUFFIX, offset_file_name, offsets_of
from logdex.kafka.scan.damaged_batch import DamagedBatch
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.rising_batches import RisingBatches
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow, EndKind, ScanEnd
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.state.producer_snapshot import load_producer_snapshot
from logdex.kafka.state.producer_state import ProducerStates
from logdex.kernels.kafka.batch_columns import BatchColumns, pick_columns


class HeaderWalk:
    """Windows of a segment's batches from a position on. When all were taken, `end` states where
    the last good run of batches ends and why.

    With `check_crc`, batches with a wrong checksum are skipped like other damage, so the windows
    hold the batches that every reader sees. If it is None, checksums are checked unless the headers
    lead from batch to batch up to the end of the log, because a damaged length may have led into a
    record's value.
    """

    def __init__(self, segment: LogSegment, start: int, env: Env, *, check_crc: bool | None = False) -> None:
        self._segment = segment
        self._start = start
        self._env = env
        self._check_crc = check_crc
        self.end: ScanEnd | None = None

    def __iter__(self) -> Iterator[BatchWindow]:
        path = self._segment.log.path
        with self._segment.log.map() as mapped:
            data = mapped.array[: self._segment.size_bytes]
            check_crc = self._check_crc
            if check_crc is None:
                check_crc = not _headers_lead_on(data, self._start, self._env)
            scanner, resume = BatchScanner(check_crc=check_crc, env=self._env), LogResume(data, path, self._env)
            position = self._start
            while position >= 0:
                self.end = yield from scanner.scan_bytes(data, position, path=path)
                position = resume.behind(self.end).position


def _headers_lead_on(data: ByteArray, start: int, env: Env) -> bool:
    """Whether the headers lead, with rising offsets, to the end of the log, to zeros, or to a batch
    that is cut off there."""
    scanner, last = BatchScanner(check_crc=False, env=env), -1
    for window in scanner.scan_bytes(data, start):
        columns = window.columns
        if not (columns.base_offset > np.append(last, columns.last_offset[:-1])).all():
            return False
        last = int(columns.last_offset[-1])
    end = scanner.end
    if end.kind is not EndKind.TORN:
        return end.kind is not EndKind.CORRUPT
    load(data, end.position)
    return DamagedBatch(data, end.position).is_plausible() and LogResume(data).behind(end).position < 0


def walk_from(segment: LogSegment, offset: int, env: Env, *, check_crc: bool | None = False) -> HeaderWalk:
    """Returns a walk over every batch that holds `offset` or a higher one."""
    return HeaderWalk(segment, position_of(segment, offset), env, check_crc=check_crc)


def position_of(segment: LogSegment, offset: int) -> int:
    """Returns the position from which to read every batch that holds `offset` or a higher one,
    through the offset index. Returns the segment's start if the index leads to no batch or there is
    damage on the way, and its end if no batch has such an offset."""
    try:
        found = segment.locate_readable(offset)
    except CorruptError:
        return 0
    return segment.size_bytes if found is None else found.position


def find_end(segment: LogSegment, env: Env) -> tuple[int, ScanEnd]:
    """Returns (the offset after a segment's last batch, how its .log ends). Reads from the last
    entry of the offset index on, or from the start if that entry leads to no batch. The offset is
    the base offset if the segment has no batch. A batch whose offset contradicts those before it,
    which no checksum covers, does not count, or good records behind its offset would not be
    read."""
    position = 0
    try:
        found = segment.locate(segment.offset_index.last_offset)
        position = 0 if found is None else found.position
    except CorruptError:
        pass
    walk = HeaderWalk(segment, position, env, check_crc=None)
    batches = RisingBatches(segment.base_offset - 1)
    for window in walk:
        batches.add(window.columns)
    batches.flush()
    assert walk.end is not None
    return batches.last_offset + 1, walk.end


def load_producers(
    directory: str, segments: Sequence[LogSegment], end_offset: int, problems: list[LogdexError], env: Env
) -> ProducerStates:
    """Returns the producer states at `end_offset`, from the newest readable snapshot and the
    batches after it. Errors of unreadable snapshots and of states that no broker writes are added
    to `problems`."""
    states = ProducerStates()
    first = segments[0].base_offset if segments else 0
    states.clear(first)
    offsets = offsets_of(env.list_dir(directory), SNAPSHOT_SUFFIX)
    for offset in reversed([each for each in offsets if first <= each <= end_offset]):
        try:
            path = posixpath.join(directory, offset_file_name(offset, SNAPSHOT_SUFFIX))
            states.load(load_producer_snapshot(path, env=env), offset)
            break
        except LogdexError as error:
            problems.append(error)
    try:
        _replay(states, segments, end_offset, env)
    except LogdexError as error:
        problems.append(error)
    return states


def _replay(states: ProducerStates, segments: Sequence[LogSegment], end_offset: int, env: Env) -> None:
    start = states.map_end_offset
    for place, segment in enumerate(segments):
        is_below = place + 1 < len(segments) and segments[place + 1].base_offset <= start
        if is_below or start >= end_offset:
            continue
        for window in walk_from(segment, max(start, segment.base_offset), env, check_crc=None):
            columns = window.columns
            wanted = (columns.base_offset >= start) & (columns.last_offset < end_offset)
            states.add_of(_only(columns, wanted), segment.log.path)


def _only(columns: BatchColumns, wanted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> BatchColumns:
    """Returns the rows of a window where `wanted` is true."""
    return columns if wanted.all() else pick_columns(columns, wanted)
