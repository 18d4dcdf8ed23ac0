"""LZ4 and zstd in the decode kernel: the libraries' functions, called by their addresses.

A library call per batch from Python costs as much as decompressing 16 KiB of LZ4, and holds the
GIL. The functions are exports of the wheels of lz4 and of several of zstd, and are tested before
use; without one the address is 0. A batch that these functions refuse is decompressed by
`logdex.kafka.batch.compression`, which also raises its error. Source: the LZ4 frame in
``docs/formats/kafka-record-batch.md``.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from typing import Any

import numpy as np

from logdex.kernels.common.libraries import address_of, shared_library
from logdex.kernels.common.memory import copy_bytes, load_le64, load_u8
from logdex.kernels.compiled import inner_kernel, intrinsic, ir, types

_TEXT = b"logdex logdex logdex"
_LZ4_OF_TEXT = b"\x74logdex \x07\x00\x50ogdex"
_ZSTD_OF_TEXT = b"\x28\xb5\x2f\xfd\x20\x14\xa1\x00\x00" + _TEXT

_ZSTD_MODULES = ("backports.zstd._zstd", "_zstd", "zstandard._cffi")
"""The modules whose zstd library is used, in order of preference.

zstandard's build runs the same release 8 to 12 % slower, because its functions call one another
through a table. `_zstd` is in Python 3.14 and later.
"""

_LZ4_HEAD = np.int64(0x82_40_60_18_4D_22_04)
"""What Kafka writes: the magic number, flags 60 (independent blocks), blocks of 64 KiB, the
checksum."""
_LZ4_HEAD_SIZE = 7
LZ4_BLOCK_SIZE_BYTES = 1 << 16
_LZ4_RAW = 1 << 31


@cache
def lz4_function_address() -> int:
    """The address of `int LZ4_decompress_safe(const char *source, char *target, int size, int
    room)`, or 0."""
    library = shared_library("lz4.block._block")
    try:
        if library is None:
            return 0
        target = ctypes.create_string_buffer(64)
        size = library.LZ4_decompress_safe(_LZ4_OF_TEXT, target, len(_LZ4_OF_TEXT), 64)
        right = size == len(_TEXT) and target.raw[:size] == _TEXT
        return address_of(library.LZ4_decompress_safe) if right else 0
    except AttributeError:
        return 0


@cache
def _zstd_library() -> ctypes.CDLL | None:
    """The first of the zstd libraries that reads a known frame."""
    return next(filter(None, map(_zstd_library_of, _ZSTD_MODULES)), None)


def _zstd_library_of(module: str) -> ctypes.CDLL | None:
    """The library of an extension module, if its `ZSTD_decompressDCtx` reads a known frame."""
    library = shared_library(module)
    try:
        if library is None:
            return None
        library.ZSTD_createDCtx.restype = ctypes.c_void_p
        library.ZSTD_freeDCtx.argtypes = (ctypes.c_void_p,)
        library.ZSTD_decompressDCtx.restype = ctypes.c_size_t
        library.ZSTD_decompressDCtx.argtypes = (
            ctypes.c_void_p,
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.c_size_t,
        )
        context, target = library.ZSTD_createDCtx(), ctypes.create_string_buffer(64)
        size = library.ZSTD_decompressDCtx(context, target, 64, _ZSTD_OF_TEXT, len(_ZSTD_OF_TEXT))
        library.ZSTD_freeDCtx(context)
        return library if size == len(_TEXT) and target.raw[:size] == _TEXT else None
    except AttributeError:
        return None


class Decompressors:
    """The addresses for the kernel; 0 for a missing function. For one thread, because of zstd's
    context."""

    def __init__(self) -> None:
        self.lz4_function = lz4_function_address()
        self.zstd_function = 0
        self.zstd_context = 0
        library = _zstd_library()
        if library is not None:
            self.zstd_context = int(library.ZSTD_createDCtx() or 0)
        if library is not None and self.zstd_context:
            self.zstd_function = address_of(library.ZSTD_decompressDCtx)
            weakref.finalize(self, library.ZSTD_freeDCtx, self.zstd_context)


@intrinsic
def _call_lz4(_typing: Any, function: Any, source: Any, target: Any, size: Any, room: Any) -> Any:
    """Calls int function(source, target, size, room) at an int64 address; negative for an invalid
    block."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i32, i64 = ir.IntType(32), ir.IntType(64)
        kind = ir.FunctionType(i32, [i64, i64, i32, i32])
        narrow = [builder.trunc(value, i32) for value in args[3:]]
        result = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*args[1:3], *narrow])
        return builder.sext(result, i64)

    return types.int64(*(types.int64,) * 5), codegen


@intrinsic
def _call_zstd(_typing: Any, function: Any, context: Any, target: Any, room: Any, source: Any, size: Any) -> Any:
    """Calls size_t function(context, target, room, source, size) at an int64 address.

    Errors are negative as int64.
    """

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i64 = ir.IntType(64)
        kind = ir.FunctionType(i64, [i64] * 5)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), list(args[1:]))

    return types.int64(*(types.int64,) * 6), codegen


@inner_kernel
def inflate_lz4(function: int, source: int, size: int, target: int, room: int) -> int:
    """Decompresses the frame of `size` bytes at address `source` to `target`; returns the number of
    bytes.

    Returns -1 for any frame but the simplest, which Kafka writes, for an incomplete one, and for
    too little room.
    """
    end = source + size
    if function == 0 or size < _LZ4_HEAD_SIZE + 4:
        return -1
    if np.int64(load_le64(source) & np.uint64(0xFFFFFFFFFFFFFF)) != _LZ4_HEAD:
        return -1
    at = source + _LZ4_HEAD_SIZE
    done = np.int64(0)
    while end - at >= 4:
        word = load_u8(at) | load_u8(at + 1) << 8 | load_u8(at + 2) << 16 | load_u8(at + 3) << 24
        block = word & (_LZ4_RAW - 1)
        at += 4
        if block == 0:
            return done
        if block > LZ4_BLOCK_SIZE_BYTES or block > end - at or room - done < LZ4_BLOCK_SIZE_BYTES:
            return -1
        plain = block
        if word & _LZ4_RAW:
            copy_bytes(target + done, at, block)
        else:
            plain = _call_lz4(function, at, target + done, block, LZ4_BLOCK_SIZE_BYTES)
            if plain < 0:
                return -1
        at += block
        done += plain
    return -1


@inner_kernel
def inflate_zstd(function: int, context: int, source: int, size: int, target: int, room: int) -> int:
    """Decompresses the frames of `size` bytes at address `source` to `target`.

    Returns the number of bytes, or -1 if the library refuses or `room` is too small.
    """
    if function == 0:
        return -1
    done = _call_zstd(function, context, target, room, source, size)
    return done if 0 <= done <= room else -1
