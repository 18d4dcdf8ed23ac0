"""Kafka's hash of keys: the values of Kafka's own test, and many keys at once as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from logdex.primitives.murmur2 import murmur2, murmur2_of_all, partitions_of_keys


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_values_of_kafka(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF


def test_many_keys_at_once() -> None:
    keys = [bytes(range(size)) for size in range(20)] * 2 + [b"\xff" * 9, b""]
    offsets = np.cumsum([0, *map(len, keys)]).astype(np.int64)
    data = np.frombuffer(b"".join(keys), np.uint8)
    found = murmur2_of_all(data, offsets)
    assert found.tolist() == [murmur2(key) for key in keys]
    assert partitions_of_keys(found, 7).tolist() == [(murmur2(key) & 0x7FFFFFFF) % 7 for key in keys]
    assert murmur2_of_all(data[:0], np.zeros(1, np.int64)).tolist() == []
