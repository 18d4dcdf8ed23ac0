"""The public `Record` class and the enums of a batch's attributes.

Source: ``docs/formats/kafka-record-batch.md``; Kafka's Record, CompressionType, TimestampType.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_LEADER_EPOCH = -1

Header = tuple[str | bytes, bytes | None]
"""A header's key and value. The key is text, or bytes where the stored bytes are not UTF-8."""


class Compression(Enum):
    """A batch's codec. The value is its number in the attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """The name in lower case: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``."""
        return self.name.lower()


class TimestampType(Enum):
    """The kind of a record's timestamp: none (magic 0), the producer's, or that of the append."""

    NO_TIMESTAMP_TYPE = "NoTimestampType"
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class Record:
    """A record to append, or one that was read.

    In one that was read, `offset` is not -1 and the fields after it come from its batch.
    `timestamp_ms` is in milliseconds since the epoch, -1 for none (when appending: now). `sequence`
    is -1 without a producer id.
    """

    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = NO_TIMESTAMP
    headers: tuple[Header, ...] = ()
    offset: int = -1
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    leader_epoch: int = NO_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
