"""The batch that holds an offset, found by checksums where the headers alone may mislead.

The damaged length of a batch may lead into the value of its record, which may hold a log.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from logdex.io.env import Env
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kafka.segment.file_records import FileRecords, LogOffsetPosition

_WINDOW_BATCHES = 64


class CheckedSegment(Protocol):
    """What these functions use of `LogSegment`."""

    log: FileRecords
    env: Env

    @property
    def size_bytes(self) -> int:
        """The size of the .log."""


def is_undamaged(segment: CheckedSegment, start: int, stop: int) -> bool:
    """Whether bytes [start, stop) are whole batches with right checksums."""
    scanner = BatchScanner(window_batches=_WINDOW_BATCHES, env=segment.env)
    for _ in scanner.scan_bytes(segment.log.read(start, stop - start)):
        pass
    return scanner.end.kind is EndKind.END


def find_behind_damage(segment: CheckedSegment, offset: int, start: int) -> LogOffsetPosition | None:
    """The first whole batch from byte `start` on with a last offset of at least `offset`, as all
    readers find it; None if there is none.

    Raises `CorruptError` if damage lies right before that batch, or before the end of the log, and
    the batch does not hold `offset` itself: the damaged one may.
    """
    path, env = segment.log.path, segment.env
    with segment.log.map() as mapped:
        data = mapped.array[: segment.size_bytes]
        scanner, resume = BatchScanner(window_batches=_WINDOW_BATCHES, env=env), LogResume(data, path, env)
        position, error = start, None
        while position >= 0:
            for window in scanner.scan_bytes(data, position, path=path):
                columns = window.columns
                places = np.flatnonzero(columns.last_offset >= offset)
                if len(places):
                    place = int(places[0])
                    first, at, size = (int(c[place]) for c in (columns.base_offset, columns.position, columns.size))
                    if columns.count[place] < 0:  # the first offset of a wrapper is inside it
                        first = segment.log.batch_at(at).first_offset()
                    if first > offset and place == 0 and error is not None:
                        raise error
                    return LogOffsetPosition(first, at, size)
                error = None
            end = scanner.end
            position = resume.behind(end).position
            if end.kind is EndKind.CORRUPT or (end.kind is EndKind.TORN and position >= 0):
                error = end.error
    if error is not None:
        raise error
    return None
