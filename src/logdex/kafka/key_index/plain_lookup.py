"""Looks one key up in a key index without kernels: for a command that asks once. The kernels'
look-ups are its twin.

Source: ``docs/formats/kafka-key-index.md``.
"""

from __future__ import annotations

import struct

import numpy as np

from logdex.io.mapped.byte_array import ByteArray
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.kernels.kafka.key_index import FILTER_BITS, FILTER_BLOCK_SIZE_BYTES, FILTER_FACTOR, GOOD
from logdex.layout.kafka import KEY_INDEX_BLOCK_SIZE_BYTES, KEY_INDEX_ENTRY
from logdex.primitives.crc32c import crc32c

_UINT64 = (1 << 64) - 1
_NONE = np.zeros(0, np.int64)


class PlainLookup:
    """Looks hashes up in the body of an index: its filter, its fan-out table and its entries.

    `crcs` are the CRCs of the body's blocks, of which `checked` notes those that were verified.
    """

    def __init__(
        self, body: ByteArray, crcs: ByteArray, checked: ByteArray, filter_size: int, fan_out_bits: int
    ) -> None:
        self._body, self._crcs, self._checked = body, crcs, checked
        self._filter_blocks = filter_size // FILTER_BLOCK_SIZE_BYTES
        self._fan_out = filter_size
        self._bits = fan_out_bits
        self._entries = filter_size + 4 * ((1 << fan_out_bits) + 1)
        self._entry_count = (len(body) - self._entries) // KEY_INDEX_ENTRY.size_bytes

    def passes_filter(self, value: int) -> tuple[bool, int]:
        """Returns whether the filter lets a hash pass, and GOOD or where the filter is damaged."""
        if not self._filter_blocks:
            return False, GOOD
        at = FILTER_BLOCK_SIZE_BYTES * ((value >> 32) * self._filter_blocks >> 32)
        bad = self._check(at, FILTER_BLOCK_SIZE_BYTES)
        block, bits = self._body[at : at + FILTER_BLOCK_SIZE_BYTES].tobytes(), value * FILTER_FACTOR & _UINT64
        places = ((bits >> 55 - 9 * number) & 511 for number in range(FILTER_BITS))
        return all(block[place >> 3] >> (place & 7) & 1 for place in places), bad

    def relative_offsets(self, value: int) -> tuple[Int64s, int]:
        """Returns the relative offsets of a hash's entries, newest first, and GOOD or where the
        index is damaged."""
        fan = self._fan_out + 4 * (value >> 64 - self._bits)
        bad = self._check(fan, 8)
        if bad != GOOD:
            return _NONE, bad
        low, end = struct.unpack(">2i", self._body[fan : fan + 8].tobytes())
        if not 0 <= low <= end <= self._entry_count:
            return _NONE, fan
        start, stop = (self._entries + KEY_INDEX_ENTRY.size_bytes * place for place in (low, end))
        bad = self._check(start, stop - start)
        if bad != GOOD:
            return _NONE, bad
        entries = np.frombuffer(self._body[start:stop].tobytes(), KEY_INDEX_ENTRY.dtype)
        same = entries["hash_bits"] == value >> 32 - self._bits & 0xFFFFFFFF
        return entries["relative_offset"][same][::-1].astype(np.int64), GOOD

    def _check(self, start: int, size: int) -> int:
        """Returns GOOD, or the position of the first damaged block with any of the bytes."""
        for block in range(start // KEY_INDEX_BLOCK_SIZE_BYTES, -(-(start + size) // KEY_INDEX_BLOCK_SIZE_BYTES)):
            if size and not self._checked[block]:
                at = block * KEY_INDEX_BLOCK_SIZE_BYTES
                found = crc32c(self._body[at : at + KEY_INDEX_BLOCK_SIZE_BYTES].tobytes())
                if found != int.from_bytes(self._crcs[4 * block : 4 * block + 4].tobytes(), "big"):
                    return at
                self._checked[block] = 1
        return GOOD
