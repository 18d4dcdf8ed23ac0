"""Encodes a few records to a batch of magic 2 without a codec or a producer: what `encode_batch`
does, without most of the calls between its steps, which take longer than the work itself.

A property test holds that both, and the kernel, write the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from logdex.kafka.batch.record import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, Record
from logdex.kafka.batch.record_format import write_record
from logdex.layout.kafka import LOG_OVERHEAD_SIZE_BYTES, MAGIC_V2, RECORD_BATCH
from logdex.primitives.crc32c import crc32c

_HEAD = RECORD_BATCH.part("base_offset", "crc")
_COVERED = RECORD_BATCH.part("attributes", "count")
_LENGTH_BEFORE_COVERED = _HEAD.size - LOG_OVERHEAD_SIZE_BYTES
_TIMESTAMP_END = 1 << 63


class PlainBatch(NamedTuple):
    """A batch of so many records that has no offset yet. `covered` are the bytes from `attributes`
    on, which the CRC covers."""

    covered: bytes
    crc: int
    records: int
    max_timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch."""
        return _HEAD.size + len(self.covered)

    def at(self, base_offset: int, leader_epoch: int) -> bytes:
        """Returns the bytes of the batch at an offset."""
        length = _LENGTH_BEFORE_COVERED + len(self.covered)
        return _HEAD.pack(base_offset, length, leader_epoch, MAGIC_V2, self.crc) + self.covered


def encode_plain(records: Sequence[Record], now_ms: int) -> PlainBatch | None:
    """Encodes records, of which there must be one. Those without a timestamp get `now_ms`.

    Returns None for timestamps that `encode_batch` refuses. Raises `UsageError` as `write_record`
    does.
    """
    first = records[0].timestamp_ms
    if first == NO_TIMESTAMP:
        first = now_ms
    largest, parts = first, [b""]
    for place, record in enumerate(records):
        timestamp = record.timestamp_ms
        if timestamp == NO_TIMESTAMP:
            timestamp = now_ms
        if not 0 <= timestamp < _TIMESTAMP_END:
            return None
        if timestamp > largest:
            largest = timestamp
        parts.append(write_record(record, offset_delta=place, timestamp_delta=timestamp - first))
    count = len(records)
    parts[0] = _COVERED.pack(0, count - 1, first, largest, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, count)
    covered = b"".join(parts)
    return PlainBatch(covered, crc32c(covered), count, largest)
