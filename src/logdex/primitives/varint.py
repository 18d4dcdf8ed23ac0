"""Zigzag varints of 32 and 64 bits, as in Kafka's records.

Source: ``docs/formats/kafka-record-batch.md``; Kafka's ByteUtils. As in the broker, the readers
accept encodings that are longer than needed, and ignore bits of the last byte beyond the width.
"""

from __future__ import annotations

VARINT_SIZE_BYTES_MAX = 5
VARLONG_SIZE_BYTES_MAX = 10


def read_varint(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Reads the 32-bit varint at `at` and returns (value, position of the next byte).

    Raises `ValueError` if no varint ends before `end`.
    """
    return _read(data, at, end, VARINT_SIZE_BYTES_MAX, 0xFFFFFFFF)


def read_varlong(data: bytes | memoryview, at: int, end: int) -> tuple[int, int]:
    """Reads the 64-bit varint at `at` and returns (value, position of the next byte).

    Raises `ValueError` if no varint ends before `end`.
    """
    return _read(data, at, end, VARLONG_SIZE_BYTES_MAX, 0xFFFFFFFFFFFFFFFF)


def _read(data: bytes | memoryview, at: int, end: int, size_max: int, mask: int) -> tuple[int, int]:
    raw = shift = 0
    stop = at + size_max
    while True:
        if at >= end:
            raise ValueError("a varint is truncated")
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= mask
            return (raw >> 1) ^ -(raw & 1), at
        if at >= stop:
            raise ValueError(f"a varint has more than {size_max} bytes")
        shift += 7


def write_varint(value: int) -> bytes:
    """The shortest encoding of a Java int. Raises `ValueError` beyond its range."""
    if not -(1 << 31) <= value < 1 << 31:
        raise ValueError(f"{value} is not a 32-bit integer")
    return _write(value)


def write_varlong(value: int) -> bytes:
    """The shortest encoding of a Java long. Raises `ValueError` beyond its range."""
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} is not a 64-bit integer")
    return _write(value)


_ONE_BYTE = tuple(bytes((byte,)) for byte in range(0x80))


def _write(value: int) -> bytes:
    raw = value << 1 if value >= 0 else (-value << 1) - 1
    if raw < 0x80:
        return _ONE_BYTE[raw]
    if raw < 0x4000:
        return bytes((raw & 0x7F | 0x80, raw >> 7))
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)
