"""Message bodies as their producers sent them, decompressed with a bound on their size.

A batch that a producer sends is stored as single messages, each with its own body, queue offset and
msgId, and without a mark. Only an inner batch (INNER_BATCH, for batch ConsumeQueues) has many
messages in one body: it is recognised, and its body is returned unchanged. Source:
``docs/formats/message.md``; MessageDecoder.decode, CompressionType and its compressors.
"""

from __future__ import annotations

import zlib

import pyarrow as pa

from logdex import limits
from logdex.errors import CorruptError
from logdex.layout.rocketmq import (
    SYS_FLAG_COMPRESSED,
    SYS_FLAG_COMPRESSION_LZ4,
    SYS_FLAG_COMPRESSION_TYPE_MASK,
    SYS_FLAG_COMPRESSION_ZLIB,
    SYS_FLAG_COMPRESSION_ZSTD,
    SYS_FLAG_INNER_BATCH,
)
from logdex.rocketmq.message.stored_message import StoredMessage, body_at

_CHUNK_SIZE_BYTES = 1 << 20
_CODECS = {
    0: "zlib",  # versions that know only zlib leave the type bits zero
    SYS_FLAG_COMPRESSION_LZ4: "lz4",
    SYS_FLAG_COMPRESSION_ZSTD: "zstd",
    SYS_FLAG_COMPRESSION_ZLIB: "zlib",
}


def is_inner_batch(sys_flag: int) -> bool:
    """Whether the body contains many messages (for batch ConsumeQueues)."""
    return bool(sys_flag & SYS_FLAG_INNER_BATCH)


def body_codec(sys_flag: int) -> str | None:
    """``zlib``, ``lz4`` or ``zstd``; None for an uncompressed body, ``unknown`` for undefined
    types."""
    if not sys_flag & SYS_FLAG_COMPRESSED:
        return None
    return _CODECS.get(sys_flag & SYS_FLAG_COMPRESSION_TYPE_MASK, "unknown")


def decompress_body(
    message: StoredMessage,
    *,
    path: str = "<message>",
    position: int = 0,
    size_bytes_max: int = limits.BODY_DECOMPRESSED_SIZE_BYTES_MAX,
) -> bytes:
    """Returns the body as it was sent.

    Errors name `path` and the body's position in that file; `position` is the message's. Raises
    `CorruptError` for a body that is no whole stream of its codec, has an unknown codec, or
    decompresses to more than `size_bytes_max` bytes. At most one byte more than that is
    decompressed.
    """
    return decompress(message.body, message.sys_flag, path=path, position=position, size_bytes_max=size_bytes_max)


def decompress(
    stored: bytes,
    sys_flag: int,
    *,
    path: str = "<message>",
    position: int = 0,
    size_bytes_max: int = limits.BODY_DECOMPRESSED_SIZE_BYTES_MAX,
) -> bytes:
    """Returns what `decompress_body` returns, for the stored body of a message with these flags."""
    codec = body_codec(sys_flag)
    if codec is None or not stored:  # like the broker's decoder, which ignores the flag of an empty body
        return stored

    def problem(text: str, **details: object) -> CorruptError:
        at = position + body_at(sys_flag)
        return CorruptError(text, path=path, position=at, field="body", **details)  # type: ignore[arg-type]

    if codec == "unknown":
        raise problem("the compression type is unknown", expected="sysFlag bits 8-10 of 0 to 3", found=hex(sys_flag))
    try:
        body = (_inflate if codec == "zlib" else _read_stream)(stored, codec, size_bytes_max)
    except (zlib.error, OSError, EOFError, pa.ArrowException) as error:
        raise problem(f"the body is not a complete {codec} stream ({error})") from error
    if len(body) > size_bytes_max:
        raise problem(
            "the body is too large when decompressed", expected=f"at most {size_bytes_max} bytes", found="more"
        )
    return body


def _inflate(data: bytes, _: str, size_bytes_max: int) -> bytes:
    """Decompresses zlib, to at most one byte more than the bound."""
    stream = zlib.decompressobj()
    body = stream.decompress(data, size_bytes_max + 1)
    if not stream.eof and len(body) <= size_bytes_max:
        raise EOFError("it ends early")
    return body


def _read_stream(data: bytes, codec: str, size_bytes_max: int) -> bytes:
    """Decompresses lz4 frames or zstd, to at most one byte more than the bound."""
    parts, left = [], size_bytes_max + 1
    with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
        while left > 0:
            part = stream.read(min(left, _CHUNK_SIZE_BYTES))
            if not part:
                break
            parts.append(part)
            left -= len(part)
    return b"".join(parts)
