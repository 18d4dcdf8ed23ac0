"""Maps a file without keeping a descriptor of it, and survives bytes of it that cannot be read.

Python's `mmap` duplicates the descriptor and keeps it as long as the mapping exists, so a log of
500 segments would use up the usual limit of 1,024. The system call itself needs none afterwards.

Bytes that cannot be read, because the file was truncated or the disk fails, are read as zeros
(`bus_error`). So whoever uses mapped bytes asks afterwards whether they were those of the file:
`require_readable`. Where there is no such handler, the file is read into memory instead.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

from logdex.errors import UnreadableError
from logdex.io.mapped import bus_error
from logdex.io.mapped.bus_error import BusErrorHandler

if TYPE_CHECKING:
    import numpy.typing as npt

    from logdex.io.mapped.byte_array import ByteArray

_MAP_FAILED = ctypes.c_void_p(-1).value
_NO_FAULT = -1
"""The lowest page with a fault, if there is none: the handler takes it for an unsigned number."""
_READ_BYTES = 1 << 26
_MADV_POPULATE_READ = 22
"""Linux from 5.14 on. Python's `mmap` does not name it."""


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return libc


class _Guard:
    """The rows of the handler's table, which is created with the first mapping. Thread-safe."""

    def __init__(self) -> None:
        self._handler: BusErrorHandler | None = None
        self.words: memoryview | None = None
        self._free: list[int] = []
        self._rows = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replaces the lock in a forked child: another thread of the parent may have held it."""
        self._lock = threading.Lock()

    def add(self, start: int, end: int) -> tuple[memoryview, int] | None:
        """Adds a range of addresses. Returns the table and the first word of the row; None if the
        table is full."""
        with self._lock:
            if self._handler is None:
                self._handler = BusErrorHandler()
                self.words = self._handler.words
            self._handler.install()
            words = self._handler.words
            try:
                row = self._free.pop()
            except IndexError:
                if self._rows == bus_error.ROWS_MAX:
                    return None
                row = bus_error.HEADER_WORDS + self._rows * bus_error.ROW_WORDS
                self._rows += 1
            words[row + bus_error.ROW_FAULTS] = 0
            words[row + bus_error.FIRST] = _NO_FAULT
            words[row + bus_error.BEHIND] = 0
            words[row + bus_error.START] = start
            words[row + bus_error.END] = end
            words[bus_error.ROWS] = self._rows
        return words, row

    def release(self, row: int) -> None:
        """Frees a row, whose range must be empty. Takes no lock: a mapping may be collected at any
        moment."""
        self._free.append(row)


_guard = _Guard()
os.register_at_fork(after_in_child=_guard.renew_lock)


class _Mapping:
    """Owns a mapping. Arrays over it refer to it, so it is unmapped when the last of them is
    deleted."""

    def __init__(self, address: int, size_bytes: int, path: str, identity: tuple[int, int]) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.address = address
        self._identity = identity
        self._munmap = _libc().munmap
        added = _guard.add(address, address + -(-size_bytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        if added is None:
            self._munmap(address, size_bytes)
            raise OSError("more files are mapped than the process may map")
        self._words, self._row = added
        self._noted = self._words[bus_error.FAULTS]
        """The faults of the process before this one are not of this mapping, or are in `_bad`."""
        self._taken = 0
        """How many of the mapping's faults are in `_bad`."""
        self._bad: list[tuple[int, int]] = []
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": (size_bytes,), "typestr": "|u1"}

    def __del__(self) -> None:
        if hasattr(self, "_row"):
            self._words[self._row + bus_error.END] = 0
            self._munmap(self.address, self.size_bytes)
            _guard.release(self._row)

    @property
    def has_faults(self) -> bool:
        """Whether bytes were accessed that could not be read."""
        return self._words[self._row + bus_error.ROW_FAULTS] != self._taken

    def bad_ranges(self) -> list[tuple[int, int]]:
        """Returns the positions [first, end) of adjacent pages that could not be read, in rising
        order. They stay zeros in this mapping."""
        return sorted([*self._bad, *self._new_ranges()[0]]) if self.has_faults else self._bad

    def _new_ranges(self) -> tuple[list[tuple[int, int]], int, int]:
        """Returns the ranges since faults were last taken, and how many faults the mapping and the
        process had by then. If not all of their pages are noted, what lies between the lowest and
        the highest page of the mapping counts too.

        Other threads may cause faults meanwhile. The handler widens the bounds, then counts, then
        notes the page, so the counts are read first and the bounds last."""
        faults, count = (self._words[at] for at in (self._row + bus_error.ROW_FAULTS, bus_error.FAULTS))
        noted = range(max(self._noted, count - bus_error.PAGES_MAX), count)
        places = (self._words[bus_error.PAGES_AT + n % bus_error.PAGES_MAX] - self.address for n in noted)
        pages = sorted(place for place in places if 0 <= place < self.size_bytes)
        if len(pages) == faults - self._taken:
            ranges = [(page, min(page + mmap.PAGESIZE, self.size_bytes)) for page in pages]
            return _joined(ranges), faults, count
        first, behind = (self._words[self._row + word] - self.address for word in (bus_error.FIRST, bus_error.BEHIND))
        return [(first, min(behind, self.size_bytes))], faults, count

    def untaken(self) -> tuple[int, int]:
        """Returns the first range of pages that could not be read since the last `take`."""
        return self._new_ranges()[0][0]

    def take(self) -> tuple[int, int] | None:
        """Returns [first, end) of all pages that could not be read since the last call, None if
        there are none. They count as taken, and stay bad."""
        if not self.has_faults:
            return None
        ranges, self._taken, self._noted = self._new_ranges()
        self._bad = _joined(sorted([*self._bad, *ranges]))
        return ranges[0][0], ranges[-1][1]

    def first_bad(self, start: int, stop: int) -> tuple[int, int] | None:
        """Returns the first bad range that has any of the bytes [start, stop)."""
        return next(((first, end) for first, end in self.bad_ranges() if first < stop and end > start), None)

    def size_now(self) -> int:
        """Returns how many of the mapped bytes the file still has, as far as its path shows."""
        try:
            status = os.stat(self.path)
        except (OSError, ValueError):
            return self.size_bytes  # removed or renamed: its bytes are still there
        is_same = (status.st_dev, status.st_ino) == self._identity
        return min(status.st_size, self.size_bytes) if is_same else self.size_bytes


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns sorted ranges with those that overlap or touch joined."""
    joined: list[tuple[int, int]] = []
    for first, end in ranges:
        if joined and first <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((first, end))
    return joined


def map_without_descriptor(descriptor: int, path: str) -> ByteArray:
    """Maps a whole open file as a read-only array, which is empty for an empty file.

    The file stays mapped as long as an array over its bytes exists. Raises `OSError`.
    """
    import numpy as np

    status = os.fstat(descriptor)
    size_bytes = status.st_size
    if size_bytes == 0:
        return np.empty(0, np.uint8)
    if not bus_error.is_supported():
        return _read_whole(descriptor, size_bytes)
    address = _libc().mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return np.asarray(_Mapping(address, size_bytes, path, (status.st_dev, status.st_ino)))


def _read_whole(descriptor: int, size_bytes: int) -> ByteArray:
    import numpy as np

    data = np.empty(size_bytes, np.uint8)
    view, done = memoryview(data), 0  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so
    while done < size_bytes:
        more = os.preadv(descriptor, [view[done : done + _READ_BYTES]], done)
        if not more:
            break
        done += more
    data = data[:done]
    data.flags.writeable = False
    return data


def _mapping_of(array: npt.NDArray[Any]) -> _Mapping | None:
    from logdex.io.mapped.byte_array import owner_of

    owner = owner_of(array)
    return owner if isinstance(owner, _Mapping) else None


def map_pages(array: npt.NDArray[Any], start: int, stop: int) -> None:
    """Has the system map all pages of the bytes [start, stop) of a mapped file at once. So a kernel
    meets no page faults, and its prefetches reach the bytes. Where the system does not know how, or
    bytes cannot be read, each page is mapped when it is used. Other arrays are passed over."""
    mapping = _mapping_of(array)
    if mapping is None:
        return
    first, stop = start - start % mmap.PAGESIZE, min(stop, mapping.size_bytes)
    if first < stop:
        _libc().madvise(mapping.address + first, stop - first, _MADV_POPULATE_READ)


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Whether `array` shows the bytes of a file as they are now, also those that are written later.
    On a system without the handler it has those that were read when it was made."""
    return _mapping_of(array) is not None


def require_readable(array: npt.NDArray[Any], start: int = 0, stop: int | None = None) -> None:
    """Raises `UnreadableError` if any of the bytes [start, stop) of a mapped file may have been
    read as zeros that the file does not have. `array` is a view of the mapping; other arrays are
    passed over."""
    mapping = _mapping_of(array)
    if mapping is not None:
        error = find_unreadable(array, start, mapping.size_bytes if stop is None else stop)
        if error is not None:
            raise error


def find_unreadable(array: npt.NDArray[Any], start: int, stop: int) -> UnreadableError | None:
    """Returns the error that `require_readable` raises."""
    mapping = _mapping_of(array)
    if mapping is None:
        return None
    bad = mapping.first_bad(start, stop)
    if bad is not None:
        return _error(mapping, max(bad[0], start), bad[1])
    return _error(mapping, start, stop) if mapping.size_now() < stop else None


def any_faults() -> bool:
    """Whether there was any access to bytes that could not be read in this process. Takes 0.1
    µs."""
    return _guard.words is not None and _guard.words[bus_error.FAULTS] != 0


def has_faults(array: npt.NDArray[Any]) -> bool:
    """Whether bytes of the mapping of `array` were accessed that could not be read."""
    mapping = _mapping_of(array)
    return mapping is not None and mapping.has_faults


def require_no_faults(array: npt.NDArray[Any]) -> None:
    """Raises `UnreadableError` if bytes of the mapping of `array` were accessed that could not be
    read. Takes 0.2 µs, and does not notice the zeros between the new end of a truncated file and
    the end of its last page."""
    mapping = _mapping_of(array)
    if mapping is not None and mapping.has_faults:
        raise _error(mapping, *mapping.untaken())


def readable_end(array: npt.NDArray[Any], start: int, stop: int) -> int:
    """Returns the end of the bytes from `start` on that were read as they are in the file, at most
    `stop`: where a page could not be read, or the file ends now. `array` is a view of a mapped
    file, and positions are those in the file; of other arrays, all bytes can be read."""
    mapping = _mapping_of(array)
    if mapping is None:
        return stop
    bad = mapping.first_bad(start, stop)
    if bad is not None:
        stop = max(bad[0], start)
    return max(min(stop, mapping.size_now()), start)


def take_unreadable(array: npt.NDArray[Any]) -> tuple[int, int] | None:
    """Returns the positions [first, end) of the pages that could not be read since the last call;
    None if there are none. For whoever reports them and goes on: `has_faults` and
    `require_no_faults` pass over them from now on, and the others know them."""
    mapping = _mapping_of(array)
    return None if mapping is None else mapping.take()


def _error(mapping: _Mapping, position: int, end_position: int) -> UnreadableError:
    size = mapping.size_now()
    if size >= end_position:
        return UnreadableError(path=mapping.path, position=position, end_position=end_position)
    return UnreadableError(path=mapping.path, position=size, end_position=end_position, size_bytes=size)
