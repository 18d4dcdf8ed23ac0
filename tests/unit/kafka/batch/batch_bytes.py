"""Small builders of Kafka's bytes for tests, straight from the layouts, so that odd fields can be put in."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c_by_table

Header = tuple[bytes, bytes | None]


def varint(value: int) -> bytes:
    """A zigzag varint (or varlong)."""
    rest = (value << 1 ^ value >> 63) & ((1 << 64) - 1)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def sized(data: bytes | None) -> bytes:
    """A varint length, -1 for None, and the bytes."""
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> bytes:
    """A record of magic 2."""
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value) + varint(len(headers))
    body += b"".join(sized(name) + sized(content) for name, content in headers)
    return varint(len(body)) + body


def batch(
    payload: bytes,
    count: int,
    *,
    base_offset: int = 0,
    last_delta: int | None = None,
    attributes: int = 0,
    base_ms: int = 1000,
    max_ms: int = 2000,
    producer: tuple[int, int, int] = (-1, -1, -1),
    leader_epoch: int = 0,
) -> bytes:
    """A batch of magic 2 around `payload` (records, compressed or not) with a right checksum."""
    last = count - 1 if last_delta is None else last_delta
    head = [base_offset, 49 + len(payload), leader_epoch, 2, 0, attributes, last, base_ms, max_ms, *producer, count]
    raw = RECORD_BATCH.pack(*head) + payload
    head[4] = crc32c_by_table(raw[21:])
    return RECORD_BATCH.pack(*head) + payload


def legacy(
    magic: int, offset: int, key: bytes | None, value: bytes | None, *, attributes: int = 0, ms: int = 5
) -> bytes:
    """A record of magic 0 or 1, or a wrapper of such, with a right checksum."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", ms) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body
