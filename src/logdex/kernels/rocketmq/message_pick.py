"""The pick kernel: messages at known places into columns, as the scan kernel fills them.

Twin: `logdex.rocketmq.scan.plain_scan.pick_plain`. The bytes may be those of a file, or messages
that were read one by one into a buffer. Places and sizes come from an index and may be wrong: a
message that does not begin there, or has another size, ends the call.
"""

from __future__ import annotations

from logdex.kernels.common.memory import load_be32, load_i64, prefetch, store_i64
from logdex.kernels.compiled import kernel
from logdex.kernels.rocketmq.message_scan import (
    BAD_SIZE,
    COUNT,
    KEY_COUNT,
    KEYS_PER_MESSAGE_MAX,
    LIMIT,
    REASON,
    WINDOW_FULL,
    ColumnAddresses,
    Rules,
    head_problem,
    one_message,
)
from logdex.kernels.rocketmq.name_table import LookupTables

_AHEAD = 8
"""How many messages ahead the bytes are asked for: the places are known, so that no load waits for
the one before."""

_HEAD_BYTES, _TAIL_BYTES = 512, 192
"""What is asked for of a message: a small one as a whole, of a large one its head and its
properties."""


@kernel
def pick_messages(
    base: int,
    end: int,
    places: int,
    sizes: int,
    positions: int,
    count: int,
    state: int,
    c: ColumnAddresses,
    t: LookupTables,
    r: Rules,
) -> None:
    """Goes on from `state[COUNT]` (messages that are done) until all `count` are, or until a reason
    to stop.

    `places`, `sizes` and `positions` are addresses of `count` int64s: the byte at which each
    message begins, its size in bytes, and its physical offset. `base` is the address of the bytes,
    `end` their number, `state` the address of `STATE_SIZE` int64s.
    """
    limit = base + end
    reason = -1
    while reason < 0:
        i = load_i64(state + 8 * COUNT)
        if i >= count:
            reason = LIMIT
            break
        if i >= c.capacity or load_i64(state + 8 * KEY_COUNT) + KEYS_PER_MESSAGE_MAX > c.key_capacity:
            reason = WINDOW_FULL
            break
        if i + _AHEAD < count:
            ahead, size = base + load_i64(places + 8 * (i + _AHEAD)), load_i64(sizes + 8 * (i + _AHEAD))
            for step in range(0, min(size, _HEAD_BYTES), 64):
                prefetch(ahead + step)
            for step in range(0, _TAIL_BYTES, 64):
                prefetch(ahead + size - 1 - step)
        at = base + load_i64(places + 8 * i)
        reason = head_problem(at, limit)
        if reason < 0:
            size = load_be32(at)
            reason = BAD_SIZE if size != load_i64(sizes + 8 * i) else one_message(at, limit, size, state, c, t, r)
        if reason < 0:
            store_i64(c.position + 8 * i, load_i64(positions + 8 * i))
    store_i64(state + 8 * REASON, reason)
