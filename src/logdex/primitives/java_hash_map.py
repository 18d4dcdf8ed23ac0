"""The iteration order of `java.util.HashMap<Long, …>`, in which Kafka writes a producer snapshot's
entries.

Buckets come in ascending order, the entries of a bucket in insertion order. Java turns a bucket of
nine or more entries into a tree, with another order, once the table has 64 buckets. The load factor
of 3/4 and the way that Kafka assigns producer ids keep buckets far from that size.
"""

from __future__ import annotations

from collections.abc import Iterable

DEFAULT_CAPACITY = 16


def java_long_hash(value: int) -> int:
    """HashMap's spread of `Long.hashCode(value)`, an unsigned 32-bit number. `value` is a Java
    long."""
    folded = (value ^ (value >> 32)) & 0xFFFFFFFF
    return folded ^ folded >> 16


def grown_capacity(capacity: int, size: int) -> int:
    """The table length after a map with `capacity` buckets has grown to `size` entries.

    The length doubles when more than 3/4 is used, and never shrinks.
    """
    while size > capacity * 3 // 4:
        capacity *= 2
    return capacity


def hash_map_order(keys: Iterable[int], capacity: int) -> list[int]:
    """`keys`, given in insertion order, in the iteration order of a table with `capacity`
    buckets."""
    return sorted(keys, key=lambda key: java_long_hash(key) & (capacity - 1))
