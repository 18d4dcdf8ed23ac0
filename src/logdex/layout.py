"""The layout of every on-disk structure, stated once: names, types, positions, sizes.

A `Layout` refuses to be built when its fields do not add up to the size that is stated beside it, so a slip shows at
import. ``docs/formats`` repeats these tables for readers; a test compares the two.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True, slots=True)
class Field:
    """One fixed-size field: `format` is a `struct` code without byte order; `offset` is in bytes from the start."""

    name: str
    format: str
    offset: int
    size_bytes: int


class Layout:
    """Big-endian fields one after the other, `size_bytes` in all.

    >>> Layout("pair", 12, ("a", "i"), ("b", "q")).offset_of("b")
    4
    """

    def __init__(self, name: str, size_bytes: int, *fields: tuple[str, str]) -> None:
        self.name = name
        self.struct = struct.Struct(">" + "".join(code for _, code in fields))
        if self.struct.size != size_bytes:
            raise ValueError(f"layout {name}: fields take {self.struct.size} bytes, stated are {size_bytes}")
        self.size_bytes = size_bytes
        placed, at = [], 0
        for field_name, code in fields:
            size = struct.calcsize(">" + code)
            placed.append(Field(field_name, code, at, size))
            at += size
        self.fields = tuple(placed)
        self._by_name = {field.name: field for field in self.fields}

    @cached_property
    def dtype(self) -> np.dtype[np.void]:
        """The type of an array of such structures, as stored."""
        return np.dtype([(field.name, f">{field.format}") for field in self.fields])

    def offset_of(self, name: str) -> int:
        """Byte offset of field `name` from the start of the structure."""
        return self._by_name[name].offset

    def pack(self, *values: int) -> bytes:
        """The bytes of the structure; values in field order."""
        return self.struct.pack(*values)


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
"""What stands before the born host, which takes 8 bytes (IPv4 + port) or 20 (IPv6 + port)."""

MESSAGE_TAIL = Layout(
    "message-tail", 16, ("reconsume_times", "i"), ("prepared_transaction_offset", "q"), ("body_length", "i")
)
"""What stands between the store host and the body."""

HOST_V4_SIZE_BYTES = 8
HOST_V6_SIZE_BYTES = 20
MESSAGE_FIXED_SIZE_BYTES_MIN = 91
"""V1, both hosts IPv4, no body, no topic, no properties."""

BLANK = Layout("blank", 8, ("remaining_size", "i"), ("magic", "I"))

CONSUME_QUEUE_ENTRY = Layout("consume-queue-entry", 20, ("physical_offset", "q"), ("size", "i"), ("tags_code", "q"))
PRE_BLANK_SIZE = 0x7FFFFFFF
"""`size` of the entries that fill a queue's first file before its first message (physical offset 0, tags code 0)."""

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

FILE_NAME_DIGITS = 20
"""CommitLog and ConsumeQueue files are named by the byte offset of their first byte, 20 decimal digits."""

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

# -- Kafka ---------------------------------------------------------------------------------------------------------

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
"""The header of a batch of magic 2; records follow, compressed or not. The CRC-32C covers `attributes` to the end."""

LEGACY_RECORD_V0 = Layout(
    "legacy-record-v0", 18, ("offset", "q"), ("size", "i"), ("crc", "I"), ("magic", "b"), ("attributes", "b")
)
"""What stands before the key's length in magic 0. The CRC-32 covers `magic` to the end."""

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
"""offset and size, which every magic begins with; `size` (`length`) counts what follows them."""
LEGACY_SIZE_MIN_V0 = LEGACY_RECORD_V0.size_bytes - LOG_OVERHEAD_SIZE_BYTES + 8
LEGACY_SIZE_MIN_V1 = LEGACY_RECORD_V1.size_bytes - LOG_OVERHEAD_SIZE_BYTES + 8
"""The least that `size` says: behind the fixed part there are always the key's and the value's length."""

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
    ("log_size", "q"),
    ("log_edges_crc", "I"),
    ("entry_count", "i"),
    ("key_count", "i"),
    ("filter_size", "i"),
    ("keyless_count", "q"),
    ("hash_seed", "q"),
    ("block_crcs_crc", "I"),
    ("header_crc", "I"),
)
KEY_INDEX_ENTRY = Layout("key-index-entry", 8, ("hash_bits", "I"), ("relative_offset", "i"))
KEY_INDEX_MAGIC = 0x4C444B49
"""``LDKI``"""
KEY_INDEX_VERSION = 1
KEY_INDEX_BLOCK_SIZE_BYTES = 4096
"""What one checksum of a key index covers."""

MAGIC_V0, MAGIC_V1, MAGIC_V2 = 0, 1, 2
BATCH_CODEC_MASK = 0x7
BATCH_LOG_APPEND_TIME = 0x8
BATCH_TRANSACTIONAL = 0x10
BATCH_CONTROL = 0x20
BATCH_DELETE_HORIZON = 0x40
BATCH_KNOWN_ATTRIBUTES = 0x7F
BATCH_CODEC_MAX, LEGACY_CODEC_MAX = 4, 3
CONTROL_ABORT, CONTROL_COMMIT = 0, 1
