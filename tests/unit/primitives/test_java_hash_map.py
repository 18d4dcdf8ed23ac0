from __future__ import annotations

from logdex.primitives.java_hash_map import grown_capacity, hash_map_order, java_long_hash


def test_hashes() -> None:
    assert [java_long_hash(value) for value in (0, 1, 1 << 32, -1, 0x10000)] == [0, 1, 1, 0, 0x10001]


def test_the_table_doubles_beyond_three_quarters() -> None:
    assert [grown_capacity(16, size) for size in (0, 12, 13, 24, 25, 49)] == [16, 16, 32, 32, 64, 128]
    assert grown_capacity(64, 1) == 64


def test_order() -> None:
    assert hash_map_order([33, 1, 17, 0, 15], 16) == [0, 33, 1, 17, 15]
    assert hash_map_order([33, 1, 17, 0, 15], 32) == [0, 33, 1, 15, 17]
