"""The kernel that checks the property `__CRC32#` against its plain twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.kernels.common.crc import crc_function_address, crc_table
from logdex.kernels.rocketmq.property_crc import (
    ABSENT,
    PROPERTY_SIZE_BYTES,
    RIGHT,
    WRONG,
    property_crc_of,
    property_crc_plain,
    property_crcs,
)


def crc_results(messages: list[bytes], properties_at: list[int], function: int) -> list[int]:
    data = np.frombuffer(b"".join(messages) + bytes(8), np.uint8)
    sizes = np.array([len(message) for message in messages], np.int32)
    at = np.cumsum(sizes, dtype=np.int64) - sizes
    out = np.full(len(messages), 9, np.uint8)
    wrong = property_crcs(
        data.ctypes.data, at, sizes, np.array(properties_at, np.int32), function, crc_table().ctypes.data, out
    )
    assert wrong == (out == WRONG).sum()
    return [int(value) for value in out]


@given(
    heads=st.lists(st.binary(min_size=91, max_size=200), max_size=6),
    ends=st.lists(st.sampled_from(["right", "wrong", "none", "no digits", "no room"]), min_size=6, max_size=6),
    change=st.integers(0, 90),
)
def test_property_crcs_equal_the_plain_twin(heads: list[bytes], ends: list[str], change: int) -> None:
    messages, places, expected = [], [], []
    for head, end in zip(heads, ends, strict=False):
        tail = bytearray(property_crc_of(head))
        message = bytearray(head)
        if end == "none":
            tail[0] ^= 1
        elif end == "no digits":
            tail[12] = ord("x")
        elif end == "wrong":
            message[change] ^= 1
        messages.append(bytes(message + tail))
        places.append(len(head) + (1 if end == "no room" else 0))
        expected.append({"right": RIGHT, "none": ABSENT, "no room": ABSENT}.get(end, WRONG))
    plain = [property_crc_plain(message, at) for message, at in zip(messages, places, strict=True)]
    assert plain == expected
    for function in {0, crc_function_address()}:
        assert crc_results(messages, places, function) == expected


def test_property_crc_as_the_broker_writes_it() -> None:
    # MessageDecoder.createCrc32: lowest digit first, padded with zeros to ten.
    assert property_crc_of(b"123456789") == b"__CRC32#\x01" + str(0xCBF43926 & 0x7FFFFFFF)[::-1].encode() + b"\x02"
    assert len(property_crc_of(b"")) == PROPERTY_SIZE_BYTES


@pytest.mark.parametrize("digits", [b"          ", b"-123456789", b"\xff" * 10])
def test_property_crc_with_odd_digits_is_wrong(digits: bytes) -> None:
    message = bytes(100) + b"__CRC32#\x01" + digits + b"\x02"
    assert property_crc_plain(message, 100) == WRONG
    assert crc_results([message], [100], crc_function_address()) == [WRONG]
