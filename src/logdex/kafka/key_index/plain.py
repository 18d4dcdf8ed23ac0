"""The plain twin of `derive_key_index` and of look-ups, for tests."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from logdex.kafka.key_index.build import fan_out_bits, filter_blocks
from logdex.kafka.key_index.covered_log import CoveredLog
from logdex.layout.kafka import (
    KEY_INDEX_BLOCK_SIZE_BYTES,
    KEY_INDEX_ENTRY,
    KEY_INDEX_HEADER,
    KEY_INDEX_MAGIC,
    KEY_INDEX_VERSION,
)
from logdex.primitives.crc32c import crc32c
from logdex.primitives.xxh64 import xxh64

_FILTER_FACTOR = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def derive_plain(
    records: Sequence[tuple[bytes | None, int]], *, base_offset: int, covered: CoveredLog, hash_seed: int = 0
) -> bytes:
    """The file's bytes from the (key, relative offset) of all records, in log order."""
    hashed = [(xxh64(key, hash_seed), offset) for key, offset in records if key is not None]
    bits = fan_out_bits(len(hashed))
    entries = sorted(((value >> 32 - bits, offset) for value, offset in hashed), key=lambda entry: entry[0])
    keys = {value for value, _ in entries}
    blocks = filter_blocks(len(keys))
    filter_bits = bytearray(64 * blocks)
    for value, _ in hashed:
        block = (value >> 32) * blocks >> 32
        for k in range(6):
            bit = (value * _FILTER_FACTOR & _MASK) >> (55 - 9 * k) & 511
            filter_bits[64 * block + bit // 8] |= 1 << bit % 8
    firsts, first = [], 0
    for bucket in range((1 << bits) + 1):
        while first < len(entries) and entries[first][0] >> 32 < bucket:
            first += 1
        firsts.append(first)
    body = bytes(filter_bits) + struct.pack(f">{len(firsts)}i", *firsts)
    body += b"".join(KEY_INDEX_ENTRY.pack(value & 0xFFFFFFFF, offset) for value, offset in entries)
    step = KEY_INDEX_BLOCK_SIZE_BYTES
    crcs = b"".join(crc32c(body[at : at + step]).to_bytes(4, "big") for at in range(0, len(body), step))
    counts = (len(entries), len(keys), len(records) - len(entries))
    header = KEY_INDEX_HEADER.pack(
        *(KEY_INDEX_MAGIC, KEY_INDEX_VERSION, bits, base_offset, *covered, *counts), *(hash_seed, crc32c(crcs), 0)
    )[:-4]
    return header + crc32c(header).to_bytes(4, "big") + body + crcs
