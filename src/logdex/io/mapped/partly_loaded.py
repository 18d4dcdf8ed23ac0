"""Arrays of the bytes of a file that cannot be mapped, because it is on no disk of this machine.

Such an array is as large as the file, and its bytes are zeros until they are loaded. So whoever
asks for one (`ReadFile.map` with `partly`) must call `load` or `loaded_part` before using bytes,
and may call `forget_before`, so that memory does not grow with the file. For all other arrays these
functions cost nothing.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from logdex.errors import UnreadableError
from logdex.io.mapped.byte_array import ByteArray, owner_of

Read = Callable[[int, int], bytes]

PART_BYTES, PART_BYTES_MAX = 1 << 20, 16 << 20
"""How much `loaded_part` loads at first and at most, where the caller reads on from part to
part."""


class _PartlyLoaded:
    """Owns the memory. Arrays over it refer to it. Thread-safe."""

    def __init__(self, path: str, size_bytes: int, read: Read, block_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self._read = read
        self._block_bytes = block_bytes
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._is_loaded = np.zeros(-(-size_bytes // block_bytes), np.bool_)
        self._lock = threading.RLock()
        self.part = range(0)
        """The positions of the part that `loaded_part` has returned last."""
        self.keeps_all = False
        """Whether no memory is freed for now."""
        address = np.frombuffer(self._memory, np.uint8).ctypes.data
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": (size_bytes,), "typestr": "|u1"}

    def load(self, start: int, stop: int) -> None:
        """Reads those of the bytes [start, stop) that are not loaded, in runs of blocks."""
        start, stop, block = max(start, 0), min(stop, self.size_bytes), self._block_bytes
        if start >= stop:
            return
        first, behind = start // block, -(-stop // block)
        with self._lock:
            missing = np.flatnonzero(~self._is_loaded[first:behind]) + first
            most = max(PART_BYTES_MAX // block, 1)
            for run in np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1) if len(missing) else ():
                for at in range(int(run[0]), int(run[-1]) + 1, most):
                    self._fill(at, min(at + most, int(run[-1]) + 1))

    def _fill(self, first: int, behind: int) -> None:
        start, stop = first * self._block_bytes, min(behind * self._block_bytes, self.size_bytes)
        data = self._read(start, stop - start)
        if len(data) < stop - start:
            size = start + len(data)
            raise UnreadableError(path=self.path, position=size, end_position=stop, size_bytes=size)
        self._memory[start:stop] = data
        self._is_loaded[first:behind] = True

    def forget_before(self, position: int) -> None:
        """Frees the memory of the whole blocks before a position."""
        if self.keeps_all:
            return
        with self._lock:
            behind = min(position, self.size_bytes) // self._block_bytes
            there = np.flatnonzero(self._is_loaded[:behind])
            if len(there):
                start, stop = int(there[0]) * self._block_bytes, behind * self._block_bytes
                self._memory.madvise(mmap.MADV_DONTNEED, start, stop - start)
                self._is_loaded[:behind] = False


def partly_loaded(path: str, size_bytes: int, read: Read, block_bytes: int) -> ByteArray:
    """Returns an array of `size_bytes` bytes that `read` (position, size) reads. `block_bytes` is a
    multiple of the page size."""
    if not size_bytes:
        return np.empty(0, np.uint8)
    return np.asarray(_PartlyLoaded(path, size_bytes, read, block_bytes))


def _owner_of(array: npt.NDArray[Any]) -> _PartlyLoaded | None:
    owner = owner_of(array)
    return owner if isinstance(owner, _PartlyLoaded) else None


def is_partly_loaded(array: npt.NDArray[Any]) -> bool:
    """Whether bytes of an array are to be loaded before they are used."""
    return _owner_of(array) is not None


def load(array: ByteArray, start: int = 0, stop: int | None = None) -> None:
    """Loads bytes [start, stop) of a file, by default all from `start` on. `array` is the file's,
    or a view of it that begins where the file begins. Raises `StorageError`."""
    owner = _owner_of(array)
    if owner is not None:
        owner.load(start, array.size if stop is None else min(stop, array.size))


def load_pieces(array: ByteArray, positions: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> None:
    """Loads many pieces of a file, given by their positions and sizes, of which any may be
    wrong."""
    owner = _owner_of(array)
    if owner is not None:
        for position, size in zip(positions.tolist(), sizes.tolist(), strict=True):
            owner.load(position, position + size)


def loaded_part(array: ByteArray, position: int, stop: int | None = None) -> ByteArray:
    """Returns the array up to where its bytes from `position` on are loaded: the whole array if all
    are.

    Frees the memory of the bytes before, to which nothing may refer any more. Whoever reads on
    calls it again, and is given more each time, but little more than `stop` asks for.
    """
    owner = _owner_of(array)
    if owner is None:
        return array
    owner.forget_before(position)
    part = owner.part
    if not part.start <= position < part.stop:
        more = min(2 * len(part), PART_BYTES_MAX) if part and position >= part.stop else PART_BYTES
        until = max(array.size if stop is None else min(stop, array.size), position + 1)
        part = range(position, min(position + max(more, PART_BYTES), until))
    return _load_to(owner, array, position, part)


@contextmanager
def looking_ahead(array: ByteArray) -> Iterator[None]:
    """Within it the bytes that are loaded stay, while others behind them are loaded and used. The
    array must not be read by other threads meanwhile."""
    owner = _owner_of(array)
    if owner is None:
        yield
        return
    part, owner.keeps_all = owner.part, True
    try:
        yield
    finally:
        owner.part, owner.keeps_all = part, False


def longer_part(array: ByteArray, part: ByteArray, position: int) -> ByteArray:
    """Returns a longer part than `part`, whose last bytes from `position` on are cut off in the
    midst of something."""
    owner = _owner_of(array)
    if owner is None:
        return array
    more = max(part.size - position, PART_BYTES)
    return _load_to(owner, array, position, range(position, part.size + more))


def _load_to(owner: _PartlyLoaded, array: ByteArray, position: int, part: range) -> ByteArray:
    owner.part = range(part.start, min(part.stop, array.size))
    owner.load(position, owner.part.stop)
    return array[: owner.part.stop]


def forget_before(array: ByteArray, position: int) -> None:
    """Frees the memory of loaded bytes before a position. Nothing may refer to them any more."""
    owner = _owner_of(array)
    if owner is not None:
        owner.forget_before(position)
