"""Small builders of Kafka's bytes for tests, straight from the layouts, so that odd fields can be
put in."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from logdex.io.mapped.byte_array import ByteArray
from logdex.kernels.common.crc32c import crc_sources
from logdex.kernels.kafka import batch_scan
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


def find_whole_batch(data: bytes | ByteArray, position: int = -1) -> int:
    """The first position behind `position` at which any whole batch with a right checksum begins,
    be it in a value."""
    array, first = np.frombuffer(data, np.uint8), max(position + 1, 0)
    budget = 32 * max(array.size - first, 0)
    return int(batch_scan.find_batch(array.ctypes.data, first, array.size, budget, crc_sources())[0])


def whole_batches(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Position and bytes of each whole batch that does not lie in another one."""
    at = -1
    while (at := find_whole_batch(data, at)) >= 0:
        size = 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        yield at, data[at : at + size]
        at += size - 1
