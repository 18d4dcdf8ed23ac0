"""The layout of every on-disk structure of Kafka, stated once: names, types, positions, sizes."""

from __future__ import annotations

from logdex.layout.base import Layout

RECORD_BATCH = Layout(
    "record-batch",
    61,
    ("base_offset", "q"),
    ("length", "i"),
    ("leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp_ms", "q"),
    ("max_timestamp_ms", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("count", "i"),
)
"""The header of a batch of magic 2. Records follow, compressed or not. The CRC-32C covers
`attributes` to the end."""

LEGACY_RECORD_V0 = Layout(
    "legacy-record-v0", 18, ("offset", "q"), ("size", "i"), ("crc", "I"), ("magic", "b"), ("attributes", "b")
)
"""The fields before the key's length in magic 0. The CRC-32 covers `magic` to the end."""

LEGACY_RECORD_V1 = Layout(
    "legacy-record-v1",
    26,
    ("offset", "q"),
    ("size", "i"),
    ("crc", "I"),
    ("magic", "b"),
    ("attributes", "b"),
    ("timestamp_ms", "q"),
)

LOG_OVERHEAD_SIZE_BYTES = 12
"""The base offset and the size, with which every magic begins. `size` (`length`) counts what
follows these fields."""
LEGACY_SIZE_MIN_V0 = LEGACY_RECORD_V0.size_bytes - LOG_OVERHEAD_SIZE_BYTES + 8
LEGACY_SIZE_MIN_V1 = LEGACY_RECORD_V1.size_bytes - LOG_OVERHEAD_SIZE_BYTES + 8
"""The smallest `size`: the lengths of key and value always follow the fixed fields."""

OFFSET_INDEX_ENTRY = Layout("offset-index-entry", 8, ("relative_offset", "i"), ("position", "i"))
TIME_INDEX_ENTRY = Layout("time-index-entry", 12, ("timestamp_ms", "q"), ("relative_offset", "i"))
TRANSACTION_INDEX_ENTRY = Layout(
    "transaction-index-entry",
    34,
    ("version", "h"),
    ("producer_id", "q"),
    ("first_offset", "q"),
    ("last_offset", "q"),
    ("last_stable_offset", "q"),
)
PRODUCER_SNAPSHOT_HEADER = Layout("producer-snapshot-header", 10, ("version", "h"), ("crc", "I"), ("count", "i"))
PRODUCER_SNAPSHOT_ENTRY = Layout(
    "producer-snapshot-entry",
    46,
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("last_sequence", "i"),
    ("last_offset", "q"),
    ("offset_delta", "i"),
    ("timestamp_ms", "q"),
    ("coordinator_epoch", "i"),
    ("current_txn_first_offset", "q"),
)
CONTROL_RECORD_KEY = Layout("control-record-key", 4, ("version", "h"), ("type", "h"))
END_TXN_MARKER = Layout("end-txn-marker", 6, ("version", "h"), ("coordinator_epoch", "i"))

KEY_INDEX_HEADER = Layout(
    "key-index-header",
    64,
    ("magic", "I"),
    ("version", "h"),
    ("fan_out_bits", "h"),
    ("base_offset", "q"),
    ("log_size", "i"),
    ("batch_count", "i"),
    ("headers_crc", "I"),
    ("tail_position", "i"),
    ("tail_headers_crc", "I"),
    ("entry_count", "i"),
    ("key_count", "i"),
    ("keyless_count", "i"),
    ("hash_seed", "q"),
    ("block_crcs_crc", "I"),
    ("header_crc", "I"),
)
KEY_INDEX_ENTRY = Layout("key-index-entry", 8, ("hash_bits", "I"), ("relative_offset", "i"))
KEY_INDEX_MAGIC = 0x4C444B49
"""``LDKI``"""
KEY_INDEX_VERSION = 2
KEY_INDEX_BLOCK_SIZE_BYTES = 4096
"""The number of bytes that one CRC of a key index covers."""
KEY_INDEX_TAIL_SIZE_BYTES = 256 << 10
"""The batches that begin in this many last bytes of the covered .log have a CRC of their own."""

MAGIC_V0, MAGIC_V1, MAGIC_V2 = 0, 1, 2
BATCH_CODEC_MASK = 0x7
BATCH_LOG_APPEND_TIME = 0x8
BATCH_TRANSACTIONAL = 0x10
BATCH_CONTROL = 0x20
BATCH_DELETE_HORIZON = 0x40
BATCH_KNOWN_ATTRIBUTES = 0x7F
BATCH_CODEC_MAX, LEGACY_CODEC_MAX = 4, 3
CONTROL_ABORT, CONTROL_COMMIT = 0, 1
