"""The match kernel: which messages of a window have one of some tags, byte for byte.

Twin: `logdex.rocketmq.message.properties.parse_properties` and a look at TAGS.
"""

from __future__ import annotations

import numpy as np

from logdex.kernels.common.memory import load_i32, load_i64, load_u8, store_u8
from logdex.kernels.compiled import inner_kernel, kernel
from logdex.kernels.rocketmq.message_scan import ColumnAddresses
from logdex.kernels.rocketmq.property_text import TAGS_AT, find_properties


@inner_kernel
def _is_one_of(at: int, size: int, tags: int, ends: int, tag_count: int) -> bool:
    """Whether the `size` bytes at address `at` are one of the tags."""
    start = np.int64(0)
    for tag in range(tag_count):
        end = load_i64(ends + 8 * tag)
        if end - start == size:
            k = 0
            while k < size and load_u8(at + k) == load_u8(tags + start + k):
                k += 1
            if k == size:
                return True
        start = end
    return False


@kernel
def match_tags(
    base: int,
    end: int,
    places: int,
    rows: int,
    count: int,
    c: ColumnAddresses,
    tags: int,
    ends: int,
    tag_count: int,
    found: int,
    matched: int,
) -> None:
    """Writes 1 or 0 to each of the `count` bytes at address `matched`.

    `rows` and `places` are addresses of `count` int64s: places in the window, and the byte of its
    data (`end` bytes at address `base`) at which each message begins. The tags lie end to end at
    address `tags`, `ends` is the address of `tag_count` int64s; `found` that of `FOUND_SIZE`
    int64s.
    """
    limit = base + end
    for row in range(count):
        i = load_i64(rows + 8 * row)
        start = base + load_i64(places + 8 * row) + load_i32(c.properties_at + 4 * i)
        find_properties(start, start + load_i32(c.properties_length + 4 * i), limit, found)
        tag = load_i64(found + TAGS_AT)
        hit = tag != 0 and _is_one_of(tag, load_i64(found + TAGS_AT + 8), tags, ends, tag_count)
        store_u8(matched + row, np.int64(hit))
