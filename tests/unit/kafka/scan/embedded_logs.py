"""Logs whose records hold logs: whole batches with right checksums that lie in values, keys and
headers.

The values of all inner records begin with `INNER`. Whoever hands one out as a record has taken a
value for log.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from logdex.kafka.batch.compression import compress
from logdex.kafka.batch.record import Compression
from tests.unit.kafka.batch.batch_bytes import batch, legacy, record

INNER = b"inner"
PLAIN = b"outer"
_FAR = 1_000_000


def one(
    offset: int, value: bytes, *, count: int = 1, key: bytes | None = b"k", codec: Compression | None = None
) -> bytes:
    """A batch of magic 2 with `count` records of that value."""
    payload = b"".join(record(number, 0, key, value) for number in range(count))
    packed = payload if codec is None else compress(codec, payload)
    attributes = 0 if codec is None else codec.value
    return batch(packed, count, base_offset=offset, attributes=attributes, base_ms=1000 + offset, max_ms=1000 + offset)


def _inner_run(offset: int, batches: int, codec: Compression | None = None) -> bytes:
    return b"".join(one(offset + number, INNER + b"-%d" % number, codec=codec) for number in range(batches))


INNER_LOGS: dict[str, Callable[[int], bytes]] = {
    "same offset": lambda offset: one(offset, INNER),
    "same offsets": lambda offset: _inner_run(offset, 3),
    "following offsets": lambda offset: _inner_run(offset + 1, 3),
    "lower offsets": lambda offset: _inner_run(max(offset - 5, 0), 3),
    "higher offsets": lambda offset: _inner_run(offset + _FAR, 3),
    "many batches": lambda offset: _inner_run(offset, 40),
    "compressed": lambda offset: _inner_run(offset, 3, Compression.ZSTD),
    "messages": lambda offset: b"".join(legacy(1, offset + number, b"k", INNER) for number in range(3)),
    "old messages": lambda offset: b"".join(legacy(0, offset + number, None, INNER) for number in range(3)),
    "preallocated": lambda offset: _inner_run(offset, 3) + bytes(200),
    "torn": lambda offset: _inner_run(offset, 3)[:-20],
    "damaged": lambda offset: _flipped(_inner_run(offset, 4), 100),
}
"""The log that a record of the batch at an offset holds."""


def _flipped(raw: bytes, at: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]


def _several(offset: int, inner: bytes) -> bytes:
    values = [PLAIN, inner, PLAIN * 3, inner, PLAIN]
    payload = b"".join(record(number, 0, b"k%d" % number, value) for number, value in enumerate(values))
    return batch(payload, len(values), base_offset=offset)


OUTERS: dict[str, Callable[[int, bytes], bytes]] = {
    "value": one,
    "no key": lambda offset, inner: one(offset, inner, key=None),
    "several records": _several,
    "within a value": lambda offset, inner: one(offset, b"a prefix" + inner + b"a suffix"),
    "key": lambda offset, inner: batch(record(0, 0, inner, b"v"), 1, base_offset=offset),
    "header": lambda offset, inner: batch(
        record(0, 0, b"k", PLAIN, [(b"h", inner), (b"i", b"1")]), 1, base_offset=offset
    ),
    "last header": lambda offset, inner: batch(record(0, 0, b"k", PLAIN, [(b"h", inner)]), 1, base_offset=offset),
    "zstd": lambda offset, inner: one(offset, inner, codec=Compression.ZSTD),
    "lz4": lambda offset, inner: one(offset, inner, codec=Compression.LZ4),
    "message": lambda offset, inner: legacy(1, offset, b"k", inner),
    "old message": lambda offset, inner: legacy(0, offset, None, inner),
}
"""The batch at an offset that holds a log."""
SEAMLESS = frozenset(("last header", "message", "old message"))
"""Those in which no byte follows the log that they hold: it meets the next batch of the log around
it."""


@dataclass(frozen=True)
class OuterLog:
    """A log, where its batches begin, and which of them hold logs."""

    data: bytes
    starts: tuple[int, ...]
    holders: tuple[int, ...]

    def batch_at(self, start: int) -> bytes:
        """The bytes of the batch that begins there."""
        ends = (*self.starts[1:], len(self.data))
        return self.data[start : ends[self.starts.index(start)]]


def outer_log(parts: list[tuple[str, str] | None], first_offset: int = 10) -> OuterLog:
    """A log with one batch a part: (of `OUTERS`, of `INNER_LOGS`), None for one that holds no
    log."""
    data, starts, holders = b"", [], []
    offset = first_offset
    for part in parts:
        starts.append(len(data))
        if part is None:
            data += one(offset, PLAIN * 4, count=2)
            offset += 2
            continue
        holders.append(len(data))
        data += OUTERS[part[0]](offset, INNER_LOGS[part[1]](offset))
        offset += 5 if part[0] == "several records" else 1
    return OuterLog(data, tuple(starts), tuple(holders))


def random_log(chance: random.Random, first_offset: int = 10, *, seamless: bool = True) -> OuterLog:
    """A log of some batches, of which about half hold logs."""
    outers = [name for name in OUTERS if seamless or name not in SEAMLESS]
    parts: list[tuple[str, str] | None] = [None]
    for _ in range(chance.randint(2, 8)):
        holds = chance.random() < 0.5
        parts.append((chance.choice(outers), chance.choice(list(INNER_LOGS))) if holds else None)
    return outer_log(parts, first_offset)


def harm(log: OuterLog, chance: random.Random) -> bytes:
    """The log with one to three of its batches damaged, each in one place; sometimes it is cut as
    well."""
    ends = dict(zip(log.starts, (*log.starts[1:], len(log.data)), strict=True))
    data = bytearray(log.data)
    for start in sorted(chance.sample(log.starts, min(chance.randint(1, 3), len(log.starts))), reverse=True):
        at = chance.randrange(start, ends[start])
        size = min(chance.randint(1, 600), ends[start] - at)
        kind = chance.choice(("flip", "flip", "zeros", "garbage", "insert"))
        if kind == "flip":
            data[at] ^= 1 << chance.randrange(8)
        elif kind == "zeros":
            data[at : at + size] = bytes(size)
        elif kind == "garbage":
            data[at : at + size] = chance.randbytes(size)
        else:
            data[at:at] = chance.randbytes(size)
    return bytes(data)
