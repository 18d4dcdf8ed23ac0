"""Reads the files of one queue as rows of 20 bytes. Places that no file holds read as zeros."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import MissingFileError, UnreadableError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, FILE_NAME_DIGITS, PRE_BLANK_SIZE
from logdex.rocketmq.files.offset_files import list_offset_files

ENTRY_SIZE = CONSUME_QUEUE_ENTRY.size_bytes
ROW_DTYPE = CONSUME_QUEUE_ENTRY.dtype
Rows = npt.NDArray[np.uint8]
"""uint8[n, 20]: entries as stored on disk."""


class QueueDisk:
    """The files of one queue's directory, listed at construction. What cannot be read, or is
    no file and has the name of one, reads as zeros, and `on_unreadable` is called once with the
    error. Not thread-safe."""

    def __init__(
        self,
        directory: str,
        file_size_bytes: int,
        env: Env,
        open_files: OpenFiles,
        on_unreadable: Callable[[UnreadableError], object],
    ) -> None:
        self.directory = directory
        self.file_size_bytes = file_size_bytes
        found = list_offset_files(env, directory)
        self.files = found.files
        self.foreign = found.foreign
        """The paths beside the files, whose names are no offsets."""
        self._starts = [file.start_offset for file in self.files]
        self._open = open_files
        self._on_unreadable = on_unreadable
        self._unreadable: set[str] = set()
        for error in found.unusable:
            on_unreadable(error)

    @property
    def start(self) -> int:
        """The queue offset of the first place."""
        return self._starts[0] // ENTRY_SIZE if self._starts else 0

    @property
    def end(self) -> int:
        """The queue offset after the last place."""
        return self.files[-1].end_offset // ENTRY_SIZE if self.files else 0

    def has(self, queue_offset: int) -> bool:
        """Whether a file has this place."""
        at = queue_offset * ENTRY_SIZE
        place = bisect_right(self._starts, at) - 1
        return place >= 0 and at + ENTRY_SIZE <= self.files[place].end_offset

    def is_unreadable(self, queue_offset: int) -> bool:
        """Whether the file of this place was found to be unreadable."""
        if not self._unreadable:
            return False
        at = queue_offset * ENTRY_SIZE
        place = bisect_right(self._starts, at) - 1
        return place >= 0 and at < self.files[place].end_offset and self.files[place].path in self._unreadable

    def place_of(self, queue_offset: int) -> tuple[str, int]:
        """Returns the path and the byte position of a place, whether its file exists or not."""
        at = max(queue_offset, 0) * ENTRY_SIZE
        place = bisect_right(self._starts, at) - 1
        if place >= 0 and at < self.files[place].end_offset:
            return self.files[place].path, at - self.files[place].start_offset
        inside = at % self.file_size_bytes
        return f"{self.directory}/{at - inside:0{FILE_NAME_DIGITS}d}", inside

    def read(self, queue_offset: int, count: int) -> Rows:
        """Returns `count` rows from a queue offset on."""
        at, end = queue_offset * ENTRY_SIZE, (queue_offset + count) * ENTRY_SIZE
        out = np.zeros((count, ENTRY_SIZE), np.uint8)
        flat = out.reshape(-1)
        place = max(bisect_right(self._starts, at) - 1, 0)
        for file in self.files[place:]:
            if file.start_offset >= end:
                break
            first, last = max(at, file.start_offset), min(end, file.end_offset)
            if first < last and file.path not in self._unreadable:
                try:
                    data = self._open.read_at(file.path, first - file.start_offset, last - first)
                except MissingFileError:
                    continue  # a broker has removed it since the directory was listed
                except UnreadableError as error:
                    if file.path not in self._unreadable:
                        self._unreadable.add(file.path)
                        self._on_unreadable(error)
                    continue
                flat[first - at : first - at + len(data)] = np.frombuffer(data, np.uint8)
        return out

    def chunks(self, start: int, end: int, rows_max: int) -> Iterator[tuple[int, Rows]]:
        """Yields (queue offset of the first row, rows) for the places in [start, end) that files
        hold, at most `rows_max` rows at a time.

        Places between files are skipped, because a wrong name can put a file anywhere. So is
        everything after the first 2 GiB of a file, because no broker makes larger files.
        """
        at = start
        for file in self.files:
            behind = min(file.end_offset, file.start_offset + limits.COMMIT_LOG_FILE_SIZE_BYTES_MAX)
            at, last = max(at, file.start_offset // ENTRY_SIZE), min(end, -(-behind // ENTRY_SIZE))
            while at < last:
                count = min(rows_max, last - at)
                yield at, self.read(at, count)
                at += count


def fields_of(rows: Rows) -> npt.NDArray[np.void]:
    """Returns the rows as a structured array of `ROW_DTYPE`."""
    return np.ascontiguousarray(rows).reshape(-1).view(ROW_DTYPE)


def is_written(rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Returns a mask of the rows that the engine treats as entries, pre-blank ones included."""
    return np.asarray((rows["physical_offset"] >= 0) & (rows["size"] > 0))


def is_pre_blank(rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """Returns a mask of the pre-blank rows, which fill the places before a queue's first
    message."""
    blank = (rows["physical_offset"] == 0) & (rows["size"] == PRE_BLANK_SIZE) & (rows["tags_code"] == 0)
    return np.asarray(blank)
