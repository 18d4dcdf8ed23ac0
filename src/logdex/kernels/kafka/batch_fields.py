"""The positions of a batch header's fields, in bytes from its start, as constants for Numba.

`LENGTH` and `MAGIC` are correct for every magic, the others for magic 2.
"""

from __future__ import annotations

from logdex.layout.kafka import RECORD_BATCH

LENGTH = RECORD_BATCH.offset_of("length")
LEADER_EPOCH = RECORD_BATCH.offset_of("leader_epoch")
MAGIC = RECORD_BATCH.offset_of("magic")
CRC = RECORD_BATCH.offset_of("crc")
ATTRIBUTES = RECORD_BATCH.offset_of("attributes")
LAST_OFFSET_DELTA = RECORD_BATCH.offset_of("last_offset_delta")
BASE_TIMESTAMP = RECORD_BATCH.offset_of("base_timestamp_ms")
MAX_TIMESTAMP = RECORD_BATCH.offset_of("max_timestamp_ms")
PRODUCER_ID = RECORD_BATCH.offset_of("producer_id")
PRODUCER_EPOCH = RECORD_BATCH.offset_of("producer_epoch")
BASE_SEQUENCE = RECORD_BATCH.offset_of("base_sequence")
COUNT = RECORD_BATCH.offset_of("count")
