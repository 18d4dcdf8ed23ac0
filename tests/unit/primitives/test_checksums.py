"""CRC-32C and XXH32 against published values and each other."""

from __future__ import annotations

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.primitives import crc32c as module
from logdex.primitives.crc32c import crc32c, crc32c_by_table
from logdex.primitives.xxh32 import xxh32


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_crc32c_of_known_bytes(data: bytes, expected: int) -> None:
    assert crc32c(data) == crc32c(memoryview(data)) == crc32c_by_table(data) == expected


@given(st.binary(max_size=300))
def test_crc32c_and_its_plain_twin_agree(data: bytes) -> None:
    assert crc32c(data) == crc32c_by_table(data)


def test_crc32c_without_isal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "isal_crc32c", lambda: None)
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(("data", "expected"), [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)])
def test_xxh32_of_known_bytes(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


@given(st.binary(max_size=200))
def test_xxh32_is_what_lz4_frames_carry(data: bytes) -> None:
    frame = lz4.frame.compress(data, content_checksum=True, store_size=False)
    assert xxh32(data) == int.from_bytes(frame[-4:], "little")
