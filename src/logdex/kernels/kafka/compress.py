"""LZ4 and zstd in the encode kernel: the libraries' functions, called by their addresses.

A library call per batch from Python costs more than half the time of compressing 16 KiB with LZ4,
and holds the GIL. The functions are exports of the wheels of lz4 and zstandard, and are tested
before use. Without one `Compressor.function` is 0, and `logdex.kafka.columns.encode_columns` uses
the packages, batch by batch. Source: ``docs/formats/kafka-record-batch.md`` for the LZ4 frame;
Kafka's Lz4BlockOutputStream.
"""

from __future__ import annotations

import ctypes
import weakref
from functools import cache
from typing import Any

import numpy as np

from logdex.kernels.common.libraries import address_of, call_at, shared_library
from logdex.kernels.common.memory import copy_bytes, store_le32, store_u8
from logdex.kernels.compiled import inner_kernel, intrinsic, ir, types

CODEC_NONE, CODEC_LZ4, CODEC_ZSTD = 0, 3, 4
"""The codec numbers in a batch's attributes."""

LZ4_BLOCK_SIZE_BYTES = 1 << 16
_LZ4_MAGIC, _LZ4_FLAGS, _LZ4_BLOCKS, _LZ4_CHECKSUM = 0x184D2204, 0x60, 0x40, 0x82
_LZ4_FRAME_HEAD = 7
_LZ4_FRAME_END = 4
_LZ4_RAW = 1 << 31
_LZ4_ACCELERATION = 1
_ZSTD_LEVEL = 3
_TRIAL = b"logdex logdex logdex logdex logdex logdex logdex"


@cache
def _lz4_library() -> ctypes.CDLL | None:
    """lz4's library with `LZ4_compress_fast_extState` and `LZ4_sizeofState`, if a round trip
    succeeds."""
    library = shared_library("lz4.block._block")
    try:
        if library is None:
            return None
        state = ctypes.create_string_buffer(library.LZ4_sizeofState() + 8)
        packed, back = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
        aligned = ctypes.c_void_p((ctypes.addressof(state) + 7) & ~7)
        size = library.LZ4_compress_fast_extState(aligned, _TRIAL, packed, len(_TRIAL), 256, _LZ4_ACCELERATION)
        whole = 0 < size < len(_TRIAL) and library.LZ4_decompress_safe(packed, back, size, 256) == len(_TRIAL)
        return library if whole and back.raw[: len(_TRIAL)] == _TRIAL else None
    except AttributeError:
        return None


@cache
def _zstd_library() -> ctypes.CDLL | None:
    """zstandard's library with `ZSTD_compressCCtx`, if the package can read its output."""
    import zstandard

    library = shared_library("zstandard._cffi")
    if library is None:
        return None
    try:
        library.ZSTD_createCCtx.restype = ctypes.c_void_p
        library.ZSTD_freeCCtx.argtypes = (ctypes.c_void_p,)
        library.ZSTD_compressCCtx.restype = ctypes.c_size_t
        packed, context = ctypes.create_string_buffer(256), library.ZSTD_createCCtx()
        size = library.ZSTD_compressCCtx(
            ctypes.c_void_p(context), packed, ctypes.c_size_t(256), _TRIAL, ctypes.c_size_t(len(_TRIAL)), _ZSTD_LEVEL
        )
        library.ZSTD_freeCCtx(context)
        whole = size <= 256 and zstandard.ZstdDecompressor().decompress(packed.raw[:size]) == _TRIAL
        return library if whole else None
    except (AttributeError, zstandard.ZstdError):
        return None


class Compressor:
    """What the kernel needs to compress with `codec`: the addresses `function` and `context`. For
    one thread.

    `function` is 0 for `CODEC_NONE`, and if the library lacks the function.
    """

    def __init__(self, codec: int) -> None:
        self.codec = codec
        self.function = 0
        self.context = 0
        if codec == CODEC_LZ4 and (library := _lz4_library()) is not None:
            self._state = np.zeros(library.LZ4_sizeofState() // 8 + 1, np.uint64)
            self.function, self.context = address_of(library.LZ4_compress_fast_extState), self._state.ctypes.data
        elif codec == CODEC_ZSTD and (library := _zstd_library()) is not None:
            self.context = int(library.ZSTD_createCCtx() or 0)
            if self.context:
                self.function = address_of(library.ZSTD_compressCCtx)
                weakref.finalize(self, library.ZSTD_freeCCtx, self.context)


@intrinsic
def _call_lz4(_typing: Any, function: Any, state: Any, source: Any, target: Any, size: Any, room: Any) -> Any:
    """Calls int function(state, source, target, size, room, acceleration) at an int64 address."""

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        narrow = [builder.trunc(value, i32) for value in args[4:]]
        result = call_at(builder, args[0], i32, [*args[1:4], *narrow, ir.Constant(i32, _LZ4_ACCELERATION)])
        return builder.sext(result, ir.IntType(64))

    return types.int64(*(types.int64,) * 6), codegen


@intrinsic
def _call_zstd(_typing: Any, function: Any, context: Any, target: Any, room: Any, source: Any, size: Any) -> Any:
    """Calls size_t function(context, target, room, source, size, level) at an int64 address.

    Errors are negative as int64.
    """

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        level = ir.Constant(ir.IntType(32), _ZSTD_LEVEL)
        return call_at(builder, args[0], ir.IntType(64), [*args[1:], level])

    return types.int64(*(types.int64,) * 6), codegen


@inner_kernel
def compress_bound(codec: int, size: int) -> int:
    """How many bytes `compress` may need for `size` bytes."""
    if codec == CODEC_LZ4:
        blocks = size // LZ4_BLOCK_SIZE_BYTES + 1
        return _LZ4_FRAME_HEAD + _LZ4_FRAME_END + size + size // 255 + 20 * blocks
    return size + (size >> 8) + 512  # at least ZSTD_COMPRESSBOUND


@inner_kernel
def _lz4_frame(function: int, state: int, source: int, size: int, target: int) -> int:
    """Writes an LZ4 frame as Kafka does: independent blocks of 64 KiB, no checksums.

    Returns its size, or -1 if the library refuses.
    """
    store_le32(target, _LZ4_MAGIC)
    store_u8(target + 4, _LZ4_FLAGS)
    store_u8(target + 5, _LZ4_BLOCKS)
    store_u8(target + 6, _LZ4_CHECKSUM)
    at = target + _LZ4_FRAME_HEAD
    done = 0
    while done < size:
        block = min(size - done, LZ4_BLOCK_SIZE_BYTES)
        packed = _call_lz4(function, state, source + done, at + 4, block, block + block // 255 + 16)
        if packed <= 0:
            return -1
        if packed >= block:
            copy_bytes(at + 4, source + done, block)
            packed = block
            store_le32(at, block | _LZ4_RAW)
        else:
            store_le32(at, packed)
        at += 4 + packed
        done += block
    store_le32(at, 0)
    return at + _LZ4_FRAME_END - target


@inner_kernel
def compress(codec: int, function: int, context: int, source: int, size: int, target: int) -> int:
    """Compresses `size` bytes to `target`, which has room for `compress_bound`.

    Returns the compressed size, or -1 if the library refuses.
    """
    if codec == CODEC_LZ4:
        return _lz4_frame(function, context, source, size, target)
    packed = _call_zstd(function, context, target, compress_bound(codec, size), source, size)
    return packed if packed > 0 else -1
