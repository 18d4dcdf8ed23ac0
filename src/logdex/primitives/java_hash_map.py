"""The order in which `java.util.HashMap<Long, …>` gives its entries, which Kafka writes into producer snapshots.

Buckets in rising order, entries of one bucket in the order in which they were put. A bucket of nine and more in a
table of 64 and more becomes a tree in Java, whose order differs; the load factor of 3/4 keeps the numbers that
Kafka hands out far from that.
"""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT_CAPACITY = 16


def java_long_hash(value: int) -> int:
    """HashMap's spread of `Long.hashCode(value)`, unsigned 32 bits; `value` is a Java long."""
    folded = (value ^ (value >> 32)) & 0xFFFFFFFF
    return folded ^ folded >> 16


def grown_capacity(capacity: int, size: int) -> int:
    """The table's length when a map of `capacity` has come to hold `size` entries: it doubles beyond 3/4, and never
    shrinks."""
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def hash_map_order(keys: Iterable[int], capacity: int) -> list[int]:
    """`keys`, given in the order in which they were put, in the order of iteration over a table of `capacity`."""
    return sorted(keys, key=lambda key: java_long_hash(key) & (capacity - 1))
