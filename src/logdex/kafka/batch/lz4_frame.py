"""LZ4 frames as Kafka reads and writes them.

Blocks are independent and 64 KiB long; magic 0 has a header checksum of its own. Source:
``docs/formats/kafka-record-batch.md``; Kafka's Lz4BlockOutputStream and Lz4BlockInputStream. As in
Kafka, a content size and a content checksum are ignored, block checksums are verified, linked
blocks are refused, and data after the end mark is not read. Frame fields are little-endian.
"""

from __future__ import annotations

import struct

import lz4.block

from logdex.primitives.xxh32 import xxh32

_MAGIC = b"\x04\x22\x4d\x18"
_WRITTEN_DESCRIPTOR = b"\x60\x40"
"""Version 1, independent blocks of 64 KiB, no checksums, no content size."""
_BLOCK_SIZE_BYTES = 1 << 16
_STORED_PLAIN = 1 << 31
_U32 = struct.Struct("<I")


def compress_frame(data: bytes, *, magic: int) -> bytes:
    """Returns the frame that the broker writes in a batch of `magic`, byte for byte."""
    import pyarrow as pa

    # Arrow's raw codec calls LZ4_compress_default, as lz4-java does. lz4.block uses a stream, whose
    # bytes differ.
    codec = pa.Codec("lz4_raw")
    checksum = _checksum(_MAGIC + _WRITTEN_DESCRIPTOR if magic == 0 else _WRITTEN_DESCRIPTOR)
    parts = [_MAGIC, _WRITTEN_DESCRIPTOR, checksum]
    for start in range(0, len(data), _BLOCK_SIZE_BYTES):
        plain = data[start : start + _BLOCK_SIZE_BYTES]
        packed = codec.compress(plain, asbytes=True)
        if len(packed) < len(plain):
            parts += _U32.pack(len(packed)), packed
        else:
            parts += _U32.pack(len(plain) | _STORED_PLAIN), plain
    parts.append(_U32.pack(0))
    return b"".join(parts)


def decompress_frame(data: bytes | memoryview, *, magic: int, size_bytes_max: int) -> bytes:
    """Decompresses a frame; the result exceeds `size_bytes_max` by at most one block.

    Raises `ValueError` for frames that Kafka refuses.
    """
    data = memoryview(data)
    flags, block_max, at = _read_header(data, magic)
    parts, total = [], 0
    while total <= size_bytes_max:
        word = _u32(data, at)
        at += 4
        size = word & ~_STORED_PLAIN
        if size == 0:
            if flags & 0x04:
                _u32(data, at)  # the content checksum must be present, but Kafka does not verify it either
            break
        if size > block_max:
            raise ValueError(f"an LZ4 block has {size} bytes, but at most {block_max} are allowed")
        block = data[at : at + size]
        at += size
        if len(block) < size:
            raise ValueError("an LZ4 block ends early")
        if flags & 0x10:
            if _u32(data, at) != xxh32(block):
                raise ValueError("an LZ4 block's checksum is wrong")
            at += 4
        part = bytes(block) if word & _STORED_PLAIN else _unpack(block, block_max)
        parts.append(part)
        total += len(part)
    return b"".join(parts)


def _read_header(data: memoryview, magic: int) -> tuple[int, int, int]:
    """Returns (flags, maximum block size, position of the first block)."""
    if data[:4] != _MAGIC:
        raise ValueError("the magic number is not that of an LZ4 frame")
    if len(data) < 7:
        raise ValueError("an LZ4 frame ends in its header")
    flags, block = data[4], data[5]
    if flags & 0xC0 != 0x40 or flags & 0x03 or block & 0x8F or block >> 4 < 4:
        raise ValueError(f"invalid LZ4 frame descriptor: {flags:#04x} {block:#04x}")
    if not flags & 0x20:
        raise ValueError("an LZ4 frame has linked blocks, which Kafka does not read")
    end = 14 if flags & 0x08 else 6  # with or without the content size of 8 bytes
    if len(data) <= end:
        raise ValueError("an LZ4 frame ends in its header")
    if magic != 0 and bytes(data[end : end + 1]) != _checksum(data[4:end]):
        raise ValueError("the header checksum of an LZ4 frame is wrong")
    return flags, 1 << (2 * (block >> 4) + 8), end + 1


def _checksum(descriptor: bytes | memoryview) -> bytes:
    """The header's checksum byte. In magic 0 it also covers the magic number, as in Kafka."""
    return bytes([xxh32(descriptor) >> 8 & 0xFF])


def _unpack(block: memoryview, block_max: int) -> bytes:
    try:
        return bytes(lz4.block.decompress(block, uncompressed_size=block_max))
    except lz4.block.LZ4BlockError as error:
        raise ValueError(f"an LZ4 block is invalid ({error})") from error


def _u32(data: memoryview, at: int) -> int:
    if len(data) < at + 4:
        raise ValueError("an LZ4 frame ends early")
    value: int = _U32.unpack_from(data, at)[0]
    return value
