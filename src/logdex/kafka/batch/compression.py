"""Compresses and decompresses the records of a batch, with a bound on the decompressed size.

Source: ``docs/formats/kafka-record-batch.md``; Kafka's Compression and its subclasses. Each call
makes its own codec contexts, because they are not thread-safe. Large libraries are imported when
they are used, because small commands import this module.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from logdex import limits
from logdex.errors import CorruptError
from logdex.kafka.batch import lz4_frame
from logdex.kafka.batch.record import Compression

_GZIP_WBITS = 31
_GZIP_HEADER = bytes((0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF))
"""As Java 16 and later write it: no time, no name, an unknown operating system."""
_GZIP_LEVEL = 6
_GZIP_MEMORY_LEVEL = 8

_SNAPPY_MAGIC = b"\x82SNAPPY\x00"
_SNAPPY_HEADER = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
_SNAPPY_BLOCK_SIZE_BYTES = 32 << 10

_ZSTD_LEVEL = 3
_ZSTD_EXPANSION_MAX = 1 << 15
"""A block of 4 bytes can expand to 128 KiB."""


def decompress(
    codec: Compression,
    data: bytes | memoryview,
    *,
    magic: int = 2,
    size_bytes_max: int = limits.BATCH_DECOMPRESSED_SIZE_BYTES_MAX,
    path: str = "<batch>",
    position: int = 0,
) -> bytes:
    """Decompresses the records of a batch of `magic`.

    `path` and `position` (the batch's byte position in the file) locate errors. Raises
    `CorruptError` if `data` is not a whole stream of the codec or decompresses to more than
    `size_bytes_max` bytes. Uses at most about twice that memory.
    """
    if codec is Compression.NONE:
        return bytes(data)
    try:
        plain = _decompress(codec, memoryview(data), magic, size_bytes_max)
        if len(plain) > size_bytes_max:
            raise OverflowError
    except ValueError as error:
        raise CorruptError(
            f"the records are not a complete {codec.label} stream ({error})",
            path=path,
            position=position,
            field="records",
        ) from error
    except OverflowError as error:
        raise CorruptError(
            "the records are too large when decompressed",
            path=path,
            position=position,
            field="records",
            expected=f"at most {size_bytes_max} bytes decompressed",
            found="more",
        ) from error
    return plain


def compress(codec: Compression, data: bytes, *, magic: int = 2) -> bytes:
    """Compresses the records of a batch of `magic`.

    gzip and lz4 are byte-identical to Kafka's. The bytes of snappy and zstd depend on the library's
    version and may differ from the broker's (those of gzip where zlib was replaced); their framing
    is always Kafka's.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _compress_gzip(data)
        case Compression.SNAPPY:
            return _compress_snappy(data)
        case Compression.LZ4:
            return lz4_frame.compress_frame(data, magic=magic)
        case Compression.ZSTD:
            import zstandard

            return zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=False).compress(data)


def _decompress(codec: Compression, data: memoryview, magic: int, size_bytes_max: int) -> bytes:
    """Decompresses, stopping soon after the bound is exceeded.

    Raises `ValueError` for data that is not a whole stream, `OverflowError` for more than the
    bound.
    """
    if codec is Compression.LZ4:
        return lz4_frame.decompress_frame(data, magic=magic, size_bytes_max=size_bytes_max)
    reader: Callable[[memoryview, int], bytes] = {
        Compression.GZIP: _decompress_gzip,
        Compression.SNAPPY: _decompress_snappy,
        Compression.ZSTD: _decompress_zstd,
    }[codec]
    return reader(data, size_bytes_max)


def _compress_gzip(data: bytes) -> bytes:
    stream = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS, _GZIP_MEMORY_LEVEL)
    body = stream.compress(data) + stream.flush()
    return _GZIP_HEADER + body + struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)


def _decompress_gzip(data: memoryview, size_bytes_max: int) -> bytes:
    """Decompresses consecutive gzip members. As in Java, data after them that is no member is
    ignored."""
    parts, total, rest = [], 0, bytes(data)
    while total <= size_bytes_max:
        stream = zlib.decompressobj(_GZIP_WBITS)
        try:
            part = stream.decompress(rest, size_bytes_max + 1 - total)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        parts.append(part)
        total += len(part)
        if total <= size_bytes_max and not stream.eof:
            raise ValueError("it ends early")
        rest = stream.unused_data
        if rest[:3] != _GZIP_HEADER[:3]:
            break
    return b"".join(parts)


def _compress_snappy(data: bytes) -> bytes:
    import pyarrow as pa

    codec, parts = pa.Codec("snappy"), [_SNAPPY_HEADER]
    for start in range(0, len(data), _SNAPPY_BLOCK_SIZE_BYTES):
        block = codec.compress(data[start : start + _SNAPPY_BLOCK_SIZE_BYTES], asbytes=True)
        parts += len(block).to_bytes(4, "big"), block
    return b"".join(parts)


def _decompress_snappy(data: memoryview, size_bytes_max: int) -> bytes:
    """Decompresses blocks after a header, or one block without a header.

    The header may repeat, as streams may be concatenated.
    """
    if not len(data):
        raise ValueError("the data is empty")
    if len(data) < len(_SNAPPY_HEADER) or data[:8] != _SNAPPY_MAGIC:
        return _snappy_block(data, size_bytes_max)
    parts, total, at = [], 0, 0
    while at + 4 <= len(data) and total <= size_bytes_max:
        if data[at : at + 8] == _SNAPPY_MAGIC:
            at += len(_SNAPPY_HEADER)
            if at > len(data):
                raise ValueError("a header is truncated")
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if size > len(data) - at:
            raise ValueError(f"a block has {size} bytes, but {len(data) - at} are left")
        part = _snappy_block(data[at : at + size], size_bytes_max - total)
        parts.append(part)
        total += len(part)
        at += size
    return b"".join(parts)


def _snappy_block(block: memoryview, size_bytes_max: int) -> bytes:
    """Decompresses a raw snappy block, which begins with its decompressed size as a varint."""
    import pyarrow as pa

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    else:
        raise ValueError("a block has no size")
    if size > size_bytes_max:
        raise OverflowError
    try:
        plain: bytes = pa.Codec("snappy").decompress(pa.py_buffer(block), decompressed_size=size, asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error
    return plain


def _decompress_zstd(data: memoryview, size_bytes_max: int) -> bytes:
    """Decompresses consecutive frames. The input is fed in pieces that cannot expand beyond the
    bound."""
    import zstandard

    parts, total, rest = [], 0, data
    while len(rest) and total <= size_bytes_max:
        stream = zstandard.ZstdDecompressor().decompressobj()
        while not stream.eof and total <= size_bytes_max:
            if not len(rest):
                raise ValueError("it ends early")
            piece = rest[: max(64, (size_bytes_max - total) // _ZSTD_EXPANSION_MAX)]
            try:
                part = stream.decompress(piece)
            except zstandard.ZstdError as error:
                raise ValueError(str(error)) from error
            rest = rest[len(piece) - len(stream.unused_data) :]
            parts.append(part)
            total += len(part)
    return b"".join(parts)
