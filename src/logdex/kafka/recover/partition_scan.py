"""Finds every whole batch of a partition: pieces of .log files, and all bytes between them.

A piece is a run of adjacent whole batches whose offsets rise. In a sound log each file is one
piece. Pieces are separated by bytes that are not a whole batch and by single batches that
contradict their neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from logdex.errors import UnusableFileError
from logdex.io.env import Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import take_unreadable
from logdex.kafka.recover.report import Skipped
from logdex.kafka.scan.resume import LogResume, Resumed
from logdex.kafka.scan.rising_batches import Judged, RisingBatches
from logdex.kafka.scan.scanner import BatchScanner, EndKind, ScanEnd, map_log
from logdex.kernels.kafka.batch_columns import BatchColumns, pick_columns

DOUBTFUL = "whole batches that may lie in the value of a record of the damaged batch before them"

OnRead = Callable[[int, int], None]
"""Called with the numbers of further (records, bytes) that were read."""


class SourceLog(NamedTuple):
    """A .log to read. `base_offset` is the one in its name."""

    path: str
    base_offset: int
    size_bytes: int


class Piece(NamedTuple):
    """Whole batches in bytes [start, end) of a file, whose offsets rise from `first_offset` to
    `last_offset`. `records` counts a legacy wrapper as one record."""

    source: SourceLog
    start: int
    end: int
    first_offset: int
    last_offset: int
    batches: int
    records: int


class PartitionScan:
    """Scans a partition's logs in the order of their names. Afterwards `pieces` holds the pieces of
    the log in rising order, and `strays` those that contradict them. `doubtful` holds pieces that
    may lie in a record's value; their batches are not counted. `skipped` holds all other bytes, and
    those of the doubtful pieces. Memory depends on the window and the number of pieces. Not
    thread-safe."""

    def __init__(self, env: Env, on_read: OnRead | None = None) -> None:
        self.pieces: list[Piece] = []
        self.strays: list[Piece] = []
        self.doubtful: list[Piece] = []
        self.skipped: list[Skipped] = []
        self._env = env
        self._on_read = on_read
        self._rising = RisingBatches(-1)
        self._next_offset = -1
        self._open: list[Skipped] = []

    def scan(self, source: SourceLog, next_base: int | None) -> None:
        """Scans the next file. `next_base` is the base offset of the file after it, or None for the
        last file."""
        try:
            mapped = map_log(source.path, self._env)
        except UnusableFileError as error:
            first = self._next_offset if self._next_offset >= 0 else source.base_offset
            self._open.append(Skipped(source.path, 0, 0, error.reason, first, -1))
            return
        with mapped:
            data, position = mapped.array, 0
            resume = LogResume(data, source.path, self._env)
            while position >= 0:
                end = self._run(source, data, position, next_base)
                resumed = resume.behind(end)
                self._pass_damage(source, data, end, resumed)
                take_unreadable(data)  # `skipped` tells of them
                position = resumed.position
                if self._on_read is not None:
                    self._on_read(0, (position if position >= 0 else data.size) - end.position)

    def finish(self) -> None:
        """Finishes the scan after the last file."""
        self._close_skipped(-1)

    def forget(self, sources: list[SourceLog], first: SourceLog) -> bool:
        """Leaves out what was found in these logs, which a broker has removed since. `first` is the
        first log that is left. Returns False if what was found in the logs that are left may depend
        on the others: then they must be scanned again."""
        beginning = next((piece for piece in self.pieces if piece.source.path == first.path), None)
        if self.strays or beginning is None or beginning.start:
            return False
        paths = {source.path for source in sources}
        for pieces in (self.pieces, self.doubtful):
            pieces[:] = [piece for piece in pieces if piece.source.path not in paths]
        self.skipped = [each for each in self.skipped if each.path not in paths]
        return True

    def _run(self, source: SourceLog, data: ByteArray, position: int, next_base: int | None) -> ScanEnd:
        scanner = BatchScanner(env=self._env, unreadable_is_damage=True)
        for window in scanner.scan_bytes(data, position, path=source.path):
            if self._on_read is not None:
                self._on_read(int(np.abs(window.columns.count).sum()), int(window.columns.size.sum()))
            self._take(source, self._rising.add(window.columns))
        self._take(source, self._rising.flush(next_base if scanner.end.kind is EndKind.END else None))
        return scanner.end

    def _take(self, source: SourceLog, judged: Judged | None) -> None:
        if judged is None:
            return
        columns, good = judged
        if good.all():
            self._put(self.pieces, source, columns)
            return
        edges = np.flatnonzero(np.diff(good)) + 1
        for start, end in zip([0, *edges.tolist()], [*edges.tolist(), len(good)], strict=True):
            part = pick_columns(columns, slice(start, end))
            if good[start]:
                self._put(self.pieces, source, part)
                continue
            falls = part.base_offset[1:] <= part.last_offset[:-1]
            cuts = [0, *(np.flatnonzero(falls) + 1).tolist(), end - start]
            for low, high in pairwise(cuts):
                self._put(self.strays, source, pick_columns(part, slice(low, high)))

    def _put(self, pieces: list[Piece], source: SourceLog, columns: BatchColumns) -> None:
        start, first = int(columns.position[0]), int(columns.base_offset[0])
        end = int(columns.position[-1]) + int(columns.size[-1])
        last = int(columns.last_offset[-1])
        batches, records = len(columns.position), int(np.abs(columns.count).sum())
        if pieces is self.pieces:
            self._close_skipped(first)
            self._next_offset = last + 1
        before = pieces[-1] if pieces else None
        if before is not None and before.source is source and before.end == start and before.last_offset < first:
            start, first = before.start, before.first_offset
            batches, records = batches + before.batches, records + before.records
            pieces.pop()
        pieces.append(Piece(source, start, end, first, last, batches, records))

    def _pass_damage(self, source: SourceLog, data: ByteArray, end: ScanEnd, resumed: Resumed) -> None:
        """Notes the bytes between the end of a run and the place where reading resumes."""
        if end.kind is EndKind.END:
            return
        at = end.position
        for run in resumed.doubtful:
            self._skip(source, data, at, run.start, end, goes_on=True)
            start, at, first, last = run
            self.doubtful.append(Piece(source, start, at, first, last, 0, 0))
            self.skipped.append(Skipped(source.path, start, at, DOUBTFUL, first, last + 1))
        goes_on = resumed.position >= 0
        self._skip(source, data, at, resumed.position if goes_on else data.size, end, goes_on=goes_on)

    def _skip(self, source: SourceLog, data: ByteArray, start: int, stop: int, end: ScanEnd, *, goes_on: bool) -> None:
        """Notes bytes that are not a batch of the log. `goes_on` states whether batches follow."""
        if start == stop:
            return
        is_zero = not data[start:stop].any() and not end.is_unreadable
        # zeros after the last batch were never written; zeros before another batch replaced data
        is_loss = not is_zero or goes_on
        first = self._next_offset if self._next_offset >= 0 else source.base_offset
        why = "zeros" if is_zero else end.description
        self._open.append(Skipped(source.path, start, stop, why, first, -1, is_loss))

    def _close_skipped(self, next_offset: int) -> None:
        """Completes the open skipped ranges, which lie before `next_offset`; -1 is the end of the
        log."""
        for each in self._open:
            first = min(each.first_offset, next_offset) if next_offset >= 0 else each.first_offset
            is_loss = each.is_loss and first != next_offset  # else no offset is missing: a torn batch was written again
            self.skipped.append(replace(each, first_offset=first, next_offset=next_offset, is_loss=is_loss))
        self._open = []


def batches_of(piece: Piece, env: Env) -> Iterator[Piece]:
    """Yields the batches of a piece, one piece per batch."""
    with map_log(piece.source.path, env) as mapped:
        scanner = BatchScanner(check_crc=False, env=env)
        for window in scanner.scan_bytes(mapped.array[: piece.end], piece.start, path=piece.source.path):
            columns = window.columns
            values = zip(
                columns.position.tolist(),
                columns.size.tolist(),
                columns.base_offset.tolist(),
                columns.last_offset.tolist(),
                columns.count.tolist(),
                strict=True,
            )
            for position, size, first, last, count in values:
                yield Piece(piece.source, position, position + size, first, last, 1, abs(count))
