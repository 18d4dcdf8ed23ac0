"""The numbers of topics and queues: open-addressing tables that kernels read and Python writes
(`topic_table`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.kernels.common.memory import load_i32, load_i64
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.rocketmq.property_text import load_up_to

TOPIC_RECORD = 40


class LookupTables(NamedTuple):
    """The addresses of the tables of topics and queues.

    Slots (int32) have a number + 1, or 0; masks are the number of slots - 1. A topic is a record of
    `TOPIC_RECORD` bytes: five int64 with the address of its bytes, its length, the hashes of
    ``topic#`` and ``topic#T#``, and flags. A queue's key is topic << 32 | queue id.
    """

    topic_slots: int
    topic_mask: int
    topics: int
    queue_slots: int
    queue_mask: int
    queue_keys: int


@kernel
def mix(a: int, b: int) -> int:
    """Mixes two words; the low 31 bits of the result are used as a slot."""
    h = (a ^ (b * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64((h ^ (h >> np.uint64(32))) & np.uint64(0x7FFFFFFF))


@inner_kernel
def _masked(at: int, size: int, limit: int) -> int:
    word = load_up_to(at, limit)
    if size < 8:
        word &= (np.uint64(1) << np.uint64(8 * size)) - np.uint64(1)
    return word


@kernel
def topic_place(at: int, size: int, limit: int) -> int:
    """The first slot to search for a topic of `size` bytes at `at`, by its length and first and
    last 8 bytes."""
    first = _masked(at, size, limit)
    last = load_up_to(at + size - 8, limit) if size > 8 else first
    return mix(first, last + np.uint64(size))


@inner_kernel
def _same_bytes(a: int, a_limit: int, b: int, size: int) -> bool:
    k = 0
    while k + 8 <= size:
        if load_up_to(a + k, a_limit) != load_up_to(b + k, b + size):
            return False
        k += 8
    return k == size or _masked(a + k, size - k, a_limit) == load_up_to(b + k, b + size)


@inner_kernel
def find_topic(at: int, size: int, limit: int, t: LookupTables) -> int:
    """The number of the topic of `size` bytes at address `at`, or -1."""
    place = topic_place(at, size, limit) & t.topic_mask
    while True:
        topic = load_i32(t.topic_slots + 4 * place) - 1
        if topic < 0:
            return -1
        record = t.topics + TOPIC_RECORD * topic
        if load_i64(record + 8) == size and _same_bytes(at, limit, load_i64(record), size):
            return topic
        place = (place + 1) & t.topic_mask


@inner_kernel
def find_queue(topic: int, queue_id: int, t: LookupTables) -> int:
    """The number of a topic's queue, or -1."""
    key = (topic << 32) | (queue_id & 0xFFFFFFFF)
    place = mix(np.uint64(key), np.uint64(7)) & t.queue_mask
    while True:
        queue = load_i32(t.queue_slots + 4 * place) - 1
        if queue < 0 or load_i64(t.queue_keys + 8 * queue) == key:
            return queue
        place = (place + 1) & t.queue_mask
