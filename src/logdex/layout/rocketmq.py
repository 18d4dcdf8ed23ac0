"""The layout of every on-disk structure of RocketMQ, stated once: names, types, positions,
sizes."""

from __future__ import annotations

from logdex.layout.base import Layout

MESSAGE_MAGIC_V1 = 0xDAA320A7
MESSAGE_MAGIC_V2 = 0xDAA320AB
BLANK_MAGIC = 0xCBD43194

MESSAGE_HEAD = Layout(
    "message-head",
    48,
    ("total_size", "i"),
    ("magic", "I"),
    ("body_crc", "I"),
    ("queue_id", "i"),
    ("flag", "i"),
    ("queue_offset", "q"),
    ("physical_offset", "q"),
    ("sys_flag", "i"),
    ("born_timestamp_ms", "q"),
)
"""The fields before the born host, which has 8 bytes (IPv4 + port) or 20 (IPv6 + port)."""

MESSAGE_TAIL = Layout(
    "message-tail", 16, ("reconsume_times", "i"), ("prepared_transaction_offset", "q"), ("body_length", "i")
)
"""The fields between the store host and the body."""

HOST_V4_SIZE_BYTES = 8
HOST_V6_SIZE_BYTES = 20
MESSAGE_FIXED_SIZE_BYTES_MIN = 91
"""V1, both hosts IPv4, no body, no topic, no properties."""

BLANK = Layout("blank", 8, ("remaining_size", "i"), ("magic", "I"))

CONSUME_QUEUE_ENTRY = Layout("consume-queue-entry", 20, ("physical_offset", "q"), ("size", "i"), ("tags_code", "q"))
PRE_BLANK_SIZE = 0x7FFFFFFF
"""The `size` of entries that fill a queue's first file before its first message (physical offset
and tags code 0)."""

INDEX_HEADER = Layout(
    "index-header",
    40,
    ("begin_timestamp_ms", "q"),
    ("end_timestamp_ms", "q"),
    ("begin_phy_offset", "q"),
    ("end_phy_offset", "q"),
    ("hash_slot_count", "i"),
    ("index_count", "i"),
)
INDEX_SLOT = Layout("index-slot", 4, ("index", "i"))
INDEX_ENTRY = Layout(
    "index-entry", 20, ("key_hash", "i"), ("phy_offset", "q"), ("time_diff_s", "i"), ("previous_index", "i")
)

CHECKPOINT = Layout(
    "checkpoint",
    48,
    ("physic_msg_timestamp_ms", "q"),
    ("logics_msg_timestamp_ms", "q"),
    ("index_msg_timestamp_ms", "q"),
    ("master_flushed_offset", "q"),
    ("confirm_phy_offset", "q"),
    ("logics_physical_offset", "q"),
)
CHECKPOINT_FILE_SIZE_BYTES = 4096

HA_TRANSFER = Layout("ha-transfer", 12, ("physical_offset", "q"), ("body_size", "i"))
"""What a master sends before a part of its log; without a body it is a heartbeat."""
HA_REPORT = Layout("ha-report", 8, ("max_offset", "q"))
"""What a slave sends: where its log ends."""

FILE_NAME_DIGITS = 20
"""CommitLog and ConsumeQueue files are named by the byte offset of their first byte, in 20 decimal
digits."""

SYS_FLAG_COMPRESSED = 0x1
SYS_FLAG_TRANSACTION_MASK = 0xC
SYS_FLAG_PREPARED = 0x4
SYS_FLAG_COMMIT = 0x8
SYS_FLAG_ROLLBACK = 0xC
SYS_FLAG_BORN_HOST_V6 = 0x10
SYS_FLAG_STORE_HOST_V6 = 0x20
SYS_FLAG_INNER_BATCH = 0x80
SYS_FLAG_COMPRESSION_TYPE_MASK = 0x700
SYS_FLAG_COMPRESSION_LZ4 = 0x100
SYS_FLAG_COMPRESSION_ZSTD = 0x200
SYS_FLAG_COMPRESSION_ZLIB = 0x300
