"""Zigzag varints: known values, Kafka's lenience, and what is none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.primitives.varint import read_varint, read_varlong, write_varint, write_varlong

KNOWN = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    ((1 << 31) - 1, "feffffff0f"),
    (-(1 << 31), "ffffffff0f"),
]
KNOWN_LONG = [*KNOWN, ((1 << 63) - 1, "feffffffffffffffff01"), (-(1 << 63), "ffffffffffffffffff01")]


@pytest.mark.parametrize(("value", "text"), KNOWN)
def test_known_ints(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert write_varint(value) == data
    assert read_varint(b"?" + data + b"?", 1, 99) == (value, 1 + len(data))


@pytest.mark.parametrize(("value", "text"), KNOWN_LONG)
def test_known_longs(value: int, text: str) -> None:
    data = bytes.fromhex(text)
    assert write_varlong(value) == data
    assert read_varlong(data, 0, len(data)) == (value, len(data))


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_longs_come_back(value: int) -> None:
    data = write_varlong(value)
    assert read_varlong(memoryview(data), 0, len(data)) == (value, len(data))
    if -(1 << 31) <= value < 1 << 31:
        assert write_varint(value) == data
        assert read_varint(data, 0, len(data)) == (value, len(data))


def test_longer_forms_and_bits_beyond_the_last_byte_are_read_as_the_broker_does() -> None:
    assert read_varint(bytes.fromhex("8000"), 0, 2) == (0, 2)
    assert read_varint(bytes.fromhex("feffffff7f"), 0, 5) == ((1 << 31) - 1, 5)
    assert read_varlong(bytes.fromhex("feffffffffffffffff7f"), 0, 10) == ((1 << 63) - 1, 10)


@pytest.mark.parametrize("text", ["", "80", "ffffffff", "8080808080", "ffffffffff01"])
def test_what_is_no_varint(text: str) -> None:
    with pytest.raises(ValueError, match="varint"):
        read_varint(bytes.fromhex(text), 0, len(text) // 2)


def test_the_end_counts_and_not_the_buffer() -> None:
    with pytest.raises(ValueError, match="is truncated"):
        read_varint(bytes.fromhex("8001"), 0, 1)
    with pytest.raises(ValueError, match="more than 10"):
        read_varlong(b"\x80" * 1000, 0, 1000)


def test_values_beyond_their_range() -> None:
    with pytest.raises(ValueError, match="32-bit"):
        write_varint(1 << 31)
    with pytest.raises(ValueError, match="64-bit"):
        write_varlong(-(1 << 63) - 1)
