"""Finds the end of a damaged batch: by its length field, its records and its checksum.

All lengths here come from bytes that may be damaged, so each is checked before it is used.

Source: Kafka's DefaultRecordBatch, LegacyRecord; ``docs/design/0016-behind-damage-kafka.md``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from logdex.io.mapped.byte_array import ByteArray
from logdex.kernels.common.crc32c import crc32c, crc_sources
from logdex.kernels.kafka import batch_fields as field
from logdex.kernels.kafka import batch_scan as kernel
from logdex.layout import kafka as layout
from logdex.primitives.varint import read_varint

MAGICS = (2, 1, 0)
_V1, _V2 = layout.LEGACY_RECORD_V1, layout.RECORD_BATCH
_KEY_AT = {0: layout.LEGACY_RECORD_V0.size_bytes, 1: _V1.size_bytes}
_crc_sources = cache(crc_sources)
_LEGACY_CRC_AT = _V1.offset_of("crc")
_LEGACY_ATTRIBUTES_AT = _V1.offset_of("attributes")


@dataclass(slots=True)
class WorkBudget:
    """A limit on the bytes that may still be read. It bounds the cost of crafted bytes."""

    left: int

    def take(self, size_bytes: int) -> bool:
        """Takes `size_bytes` from the budget. Returns whether so many were left."""
        if size_bytes > self.left:
            return False
        self.left -= size_bytes
        return True


class DamagedBatch:
    """The batch that begins, or began, at `position` of the log `data`. Its bytes may hold
    anything."""

    def __init__(self, data: ByteArray, position: int, budget: WorkBudget | None = None) -> None:
        self.position = position
        self._data = data
        self._view = memoryview(data)  # type: ignore[arg-type]  # an array is a buffer; its type does not say so
        self._budget = budget if budget is not None else WorkBudget(data.size)
        self._room = data.size - position
        self._records_ends: dict[int, int] = {}
        size = self._int(field.LENGTH, 4) if self._room >= kernel.OVERHEAD else -1
        self.stated_end = position + kernel.OVERHEAD + size if size >= kernel.SIZE_MIN_V0 else -1
        """The end by the length field, which may lie after the end of the log; -1 for a length that
        no batch has."""
        self.magic = self._int(field.MAGIC, 1) if self._room > field.MAGIC else -1

    def _int(self, at: int, size_bytes: int) -> int:
        at += self.position
        return int.from_bytes(self._view[at : at + size_bytes], "big", signed=True)

    @property
    def base_offset(self) -> int:
        """The base offset in its header."""
        return self._int(0, 8)

    @property
    def next_offset(self) -> int:
        """The offset after the last one in its header."""
        last = self._int(field.LAST_OFFSET_DELTA, 4) if self.magic == 2 else 0
        return self.base_offset + last + 1

    def is_plausible(self) -> bool:
        """Whether the header is complete and all its fields have values that a batch can have."""
        if self.magic == 2:
            return self._is_plausible_batch()
        return self.magic in _KEY_AT and self._is_plausible_message()

    def _is_plausible_batch(self) -> bool:
        if self._room < _V2.size_bytes:
            return False
        values = _V2.struct.unpack_from(self._view, self.position)
        base, length, epoch, attributes, last, producer, count = (values[i] for i in (0, 1, 2, 5, 6, 9, 12))
        if attributes & ~layout.BATCH_KNOWN_ATTRIBUTES or attributes & layout.BATCH_CODEC_MASK > layout.BATCH_CODEC_MAX:
            return False
        can_be_counted = base >= 0 and 0 <= count <= last + 1
        return bool(can_be_counted and length >= kernel.SIZE_MIN_V2 and epoch >= -1 and producer >= -1)

    def _is_plausible_message(self) -> bool:
        end = self.records_end(self.magic)
        attributes = self._int(_LEGACY_ATTRIBUTES_AT, 1) if self._room > _LEGACY_ATTRIBUTES_AT else -1
        largest = layout.BATCH_LOG_APPEND_TIME | layout.BATCH_CODEC_MASK if self.magic else layout.BATCH_CODEC_MASK
        known = 0 <= attributes <= largest and attributes & layout.BATCH_CODEC_MASK <= layout.LEGACY_CODEC_MAX
        return known and self.base_offset >= 0 and end == self.stated_end

    def records_end(self, magic: int) -> int:
        """Returns the end by the lengths of the batch's content, if the batch is of that magic; -1
        if they determine none."""
        if magic not in self._records_ends:
            self._records_ends[magic] = self._last_record_end() if magic == 2 else self._message_end(magic)
        return self._records_ends[magic]

    def is_agreed(self) -> bool:
        """Whether the length field and the records lead to the same end."""
        return self.magic in MAGICS and self.records_end(self.magic) == self.stated_end >= 0

    def _message_end(self, magic: int) -> int:
        at = _KEY_AT[magic]
        for _ in ("key", "value"):
            if at + 4 > self._room:
                return -1
            size = self._int(at, 4)
            if size < -1:
                return -1
            at += 4 + max(size, 0)
        return self.position + at

    def _last_record_end(self) -> int:
        if self._room < _V2.size_bytes or self._int(field.ATTRIBUTES, 2) & layout.BATCH_CODEC_MASK:
            return -1
        found, end = 0, self.position + _V2.size_bytes
        for _, record_end in self._batch_records():
            found, end = found + 1, record_end
        return end if found == self._int(field.COUNT, 4) else -1

    def records(self) -> Iterator[tuple[int, int]]:
        """Yields (start, end) of the records of a plausible uncompressed batch, as long as their
        lengths are possible. The last record may reach beyond the log's end."""
        if self.magic == 2:
            return self._batch_records()
        return iter([(self.position, self.stated_end)])

    def _batch_records(self) -> Iterator[tuple[int, int]]:
        if self._int(field.ATTRIBUTES, 2) & layout.BATCH_CODEC_MASK:
            return
        at, size = self.position + _V2.size_bytes, self._data.size
        for _ in range(self._int(field.COUNT, 4)):
            try:
                length, body = read_varint(self._view, at, size)
            except ValueError:
                return
            if length <= 0 or not self._budget.take(8):
                return
            yield at, body + length
            at = body + length

    def ends_at(self, end: int, magic: int) -> bool:
        """Whether the stored checksum is right for a batch of that magic that ends at `end`."""
        start, smallest = self.position, kernel.OVERHEAD + int(kernel.size_min(magic))
        if not start + smallest <= end <= self._data.size or not self._budget.take(end - start):
            return False
        if magic == 2:
            crcs, at = _crc_sources(), start + field.ATTRIBUTES
            found = crc32c(crcs.crc32c_function, crcs.crc32c_table, int(self._data.ctypes.data) + at, end - at)
            return int(found) == self._int(field.CRC, 4) & 0xFFFFFFFF
        found = zlib.crc32(self._view[start + field.MAGIC + 1 : end], zlib.crc32(bytes([magic])))
        return found == self._int(_LEGACY_CRC_AT, 4) & 0xFFFFFFFF
