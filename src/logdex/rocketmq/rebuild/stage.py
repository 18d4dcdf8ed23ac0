"""Stage files: the input of the derivations from one part of a CommitLog, between the two phases of
a parallel rebuild.

A stage file exists for one run and is read by the version that wrote it, so it is in native byte
order and its layout may change. It holds one window after another, then two tables of positions, so
that a reader reads only what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import numpy.typing as npt

from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.mapped.byte_array import ByteArray
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.consume_queue.derive import QueueRuns
from logdex.rocketmq.index_file.derive import IndexWindow

_ENTRY_SIZE = CONSUME_QUEUE_ENTRY.size_bytes

_POSITION, _MESSAGES, _KEYS, _ENTRIES = range(4)
_WINDOW_COLUMNS = 4
"""Columns of the window table (int64): position in the file, messages, keys, ConsumeQueue
entries."""
_RUN_COLUMNS = 4
"""Columns of the run table (int32): window, queue number, first entry and end within the window's
entries."""


@dataclass(frozen=True, slots=True)
class StageFile:
    """A finished stage file: its path, the number of rows of its two tables, and the byte where the
    tables begin."""

    path: str
    windows: int
    runs: int
    tables_at: int


_RESERVE_SIZE_BYTES_MAX = 16 << 20


def _padded(size_bytes: int) -> int:
    """Rounds up to a multiple of 8, because kernels are compiled for aligned arrays."""
    return -(-size_bytes // 8) * 8


class StageWriter:
    """Writes one stage file, window by window. A context manager; for one thread.

    Claims blocks of the disk ahead, as many as `part_size_bytes` of the log may need, so that a
    short part claims few.
    """

    def __init__(self, path: str, part_size_bytes: int, env: Env = DEFAULT_ENV) -> None:
        self._ahead = min(part_size_bytes, _RESERVE_SIZE_BYTES_MAX)
        self._file = env.open_write(path, exclusive=True)
        self._path = path
        self._at = self._reserved = 0
        self._windows: list[tuple[int, int, int, int]] = []
        self._runs: list[npt.NDArray[np.int32]] = []

    def put(self, index: IndexWindow, runs: QueueRuns) -> None:
        """Writes one window: its keys for the IndexFiles, and its ConsumeQueue entries."""
        number, entries = len(self._windows), len(runs.queue_offset)
        self._windows.append((self._at, len(index.physical_offset), len(index.key_hash), entries))
        table = np.empty((len(runs.queue), _RUN_COLUMNS), np.int32)
        table[:, 0], table[:, 1], table[:, 3] = number, runs.queue, runs.end
        table[:1, 2], table[1:, 2] = 0, runs.end[:-1]
        self._runs.append(table)
        for array in (*index, runs.queue_offset, runs.entries):
            self._write(array)

    def finish(self) -> StageFile:
        """Writes the tables and closes the file. Allocated space that was not needed is kept:
        freeing it may wait for the journal (up to 0.2 s), and the file is removed soon."""
        tables_at = self._at
        windows = np.array(self._windows, np.int64).reshape(-1, _WINDOW_COLUMNS)
        runs = np.concatenate([np.empty((0, _RUN_COLUMNS), np.int32), *self._runs])
        self._write(windows)
        self._write(runs)
        self._file.close()
        return StageFile(self._path, len(windows), len(runs), tables_at)

    def _write(self, array: npt.NDArray[np.int64] | npt.NDArray[np.int32] | ByteArray) -> None:
        if array.size:
            if self._at + array.nbytes > self._reserved:
                # Blocks are allocated ahead. Otherwise appending takes 20 times as long on ext4 (60
                # MB: 0.2 s instead of 0.01 s).
                size = max(self._ahead, array.nbytes)
                self._file.reserve(self._at, size)
                self._reserved = self._at + size
            self._file.write_at(self._at, array)
            self._at += _padded(array.nbytes)

    def __enter__(self) -> StageWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


class StageReader:
    """Reads a stage file through a mapping. A context manager; its results are valid until it is
    closed. For one thread."""

    def __init__(self, stage: StageFile, env: Env = DEFAULT_ENV) -> None:
        self._mapped = env.map_read(stage.path)
        self._data = self._mapped.array
        self._table = self._int64s(stage.tables_at, stage.windows * _WINDOW_COLUMNS).reshape(-1, _WINDOW_COLUMNS)
        runs_at = stage.tables_at + _padded(self._table.nbytes)
        self._runs = self._int32s(runs_at, stage.runs * _RUN_COLUMNS).reshape(-1, _RUN_COLUMNS)

    def _int64s(self, at: int, count: int) -> npt.NDArray[np.int64]:
        return self._data[at : at + 8 * count].view(np.int64)

    def _int32s(self, at: int, count: int) -> npt.NDArray[np.int32]:
        return self._data[at : at + 4 * count].view(np.int32)

    def window_of_key(self, key: int) -> tuple[int, int]:
        """Returns the window that holds the key with a number in the file, and the number of that
        key in the window."""
        ends = np.cumsum(self._table[:, _KEYS])
        window = int(np.searchsorted(ends, key, side="right"))
        return window, key - int(ends[window] - self._table[window, _KEYS])

    def index_windows(self, first: int = 0) -> Iterator[IndexWindow]:
        """Yields the keys of the windows from number `first` on."""
        for at, messages, keys, _ in self._table[first:].tolist():
            offsets = self._int64s(at, messages)
            at += offsets.nbytes
            times = self._int64s(at, messages)
            at += times.nbytes
            ends = self._int32s(at, messages)
            # Copied, because kernels are compiled for writable arrays and a read-only mapping is
            # not writable.
            hashes = self._int32s(at + _padded(ends.nbytes), keys)
            yield IndexWindow(offsets.copy(), times.copy(), ends.copy(), hashes.copy())

    def queue_runs(self, queues: Iterable[int]) -> Iterator[tuple[int, npt.NDArray[np.int64], ByteArray]]:
        """Yields (queue number, queue offsets, entries) per run of the given queues, in log
        order."""
        rows = self._runs[np.isin(self._runs[:, 1], np.fromiter(queues, np.int32))].tolist()
        for window, queue, start, end in rows:
            at, messages, keys, entries = (int(value) for value in self._table[window])
            at += 16 * messages + _padded(4 * messages) + _padded(4 * keys)
            offsets = self._int64s(at, entries)[start:end]
            at += 8 * entries
            yield queue, offsets, self._data[at + _ENTRY_SIZE * start : at + _ENTRY_SIZE * end]

    def close(self) -> None:
        """Unmaps the file."""
        self._data = np.empty(0, np.uint8)
        self._table, self._runs = self._table[:0].copy(), self._runs[:0].copy()
        self._mapped.close()

    def __enter__(self) -> StageReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
