"""Maps a file without keeping a descriptor of it.

Python's `mmap` duplicates the descriptor and keeps it as long as the mapping exists, so a log of
500 segments would use up the usual limit of 1,024. The system call itself needs none afterwards.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

_MAP_FAILED = ctypes.c_void_p(-1).value


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *([ctypes.c_int] * 3), ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return libc


class _Mapping:
    """Owns a mapping. Arrays over it refer to it, so it is unmapped when the last of them is
    deleted."""

    def __init__(self, address: int, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._address = address
        self._munmap = _libc().munmap
        self.__array_interface__ = {"version": 3, "data": (address, True), "shape": (size_bytes,), "typestr": "|u1"}

    def __del__(self) -> None:
        self._munmap(self._address, self._size_bytes)


def map_without_descriptor(descriptor: int) -> npt.NDArray[np.uint8]:
    """Maps a whole open file as a read-only array, which is empty for an empty file.

    The file stays mapped as long as an array over its bytes exists. Raises `OSError`.
    """
    size_bytes = os.fstat(descriptor).st_size
    if size_bytes == 0:
        return np.empty(0, np.uint8)
    address = _libc().mmap(None, size_bytes, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _MAP_FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return np.asarray(_Mapping(address, size_bytes))
