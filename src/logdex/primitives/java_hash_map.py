"""The iteration order of `java.util.HashMap`, in which Kafka writes a producer snapshot's entries
(by `Long`) and RocketMQ a message's properties (by `String`).

Buckets come in ascending order, the entries of a bucket in insertion order. Java turns a bucket of
nine or more entries into a tree, with another order, once the table has 64 buckets. The load factor
of 3/4 and the way that Kafka assigns producer ids keep buckets far from that size; of properties,
only names that were made to collide reach it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logdex.primitives.java_hash import java_hash

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


def string_map_order(names: Sequence[bytes], capacity: int = DEFAULT_CAPACITY) -> list[int]:
    """The positions of `names` (UTF-8, distinct, in insertion order) in the iteration order of a
    new `HashMap<String, …>` that begins with `capacity` buckets."""
    mask = grown_capacity(capacity, len(names)) - 1

    def bucket(place: int) -> int:
        value = java_hash(names[place]) & 0xFFFFFFFF
        return (value ^ value >> 16) & mask

    return sorted(range(len(names)), key=bucket)
