"""Bounds of all lengths that are read from disk, each with its reason."""

from __future__ import annotations

MESSAGE_SIZE_BYTES_MAX = 1 << 30
"""A message never spans CommitLog files, and mappedFileSizeCommitLog is 1 GiB by default."""

COMMIT_LOG_FILE_SIZE_BYTES_MAX = (1 << 31) - 1
"""mappedFileSizeCommitLog is a Java int."""

BODY_DECOMPRESSED_SIZE_BYTES_MAX = 256 << 20
"""A body that decompresses to more is refused, so that a decompression bomb raises an error instead
of swapping."""

HASH_SLOT_NUM_MAX = 1 << 29
"""maxHashSlotNum * 4 must fit the mapped file's int size."""

INDEX_NUM_MAX = 107_374_180
"""maxIndexNum * 20 must fit the mapped file's int size."""

CONFIG_FILE_SIZE_BYTES_MAX = 256 << 20
"""config/*.json is read as a whole; that of a broker with a million consumer groups is well
below."""

QUERY_MAX_NUM = 64
"""DefaultMessageStore.queryMessage returns at most maxMsgsNumBatch (64) messages."""

QUEUE_OFFSET_MAX = (1 << 63) // 20 - 1
"""A ConsumeQueue's byte offset (queue offset * 20) is a Java long."""

QUEUE_GAP_MAX = 50_000_000
"""Up to this many missing queue offsets of a queue are filled in all (1 GB of entries).

Beyond that the stored offset itself is wrong: the CRC does not cover it, and a flipped bit must not
fill a disk.
"""

QUEUE_GAP_FILES_MAX = 1_000
"""The same in ConsumeQueue files: if these are small, the bound above would be millions of
files."""

CHECKPOINT_SIZE_BYTES_MAX = 1 << 20
"""A checkpoint has 4096 bytes; a much longer file is no checkpoint."""

BROKER_CONF_SIZE_BYTES_MAX = 1 << 20
"""A broker's properties file has a few KiB."""

HA_BODY_SIZE_BYTES_MAX = (4 << 20) - 12
"""A broker's slave reads into a buffer of 4 MiB, which must hold a transfer as a whole: 12 bytes of
header, then the body. haTransferBatchSize is 32 KiB by default."""

HA_MESSAGE_SIZE_BYTES_MAX = 64 << 20
"""A slave keeps a message in memory until all of it has come. A remoting frame, in which a producer
sends messages to a broker, has at most 16 MiB."""

# -- Kafka ----------------------------------------------------------------------------------------

BATCH_SIZE_BYTES_MAX = (1 << 31) - 1
"""A batch is within one segment, whose positions are Java ints."""

BATCH_DECOMPRESSED_SIZE_BYTES_MAX = 256 << 20
"""A batch that decompresses to more is refused.

max.message.bytes is 1 MiB by default, and a decompression bomb must raise an error instead of
swapping.
"""

RECORD_SIZE_BYTES_MIN = 7
"""The fields of a record of magic 2 (length, attributes, two deltas, two lengths, header count)
have a byte each at least."""

BATCH_RECORDS_PER_BYTE_MAX = 64
"""A batch of magic 2 that states more records per stored byte is refused.

The records of a batch have rising offsets, so no codec stores many of them in one byte: two per
byte were the most that was measured, for zstd and records without key and value. Records that are
all equal, which no broker accepts, decompress to thousands per byte.
"""

RELATIVE_OFFSET_MAX = (1 << 31) - 1
"""Offsets in index entries are Java ints, relative to the segment's base offset."""

SEGMENT_SIZE_BYTES_MAX = (1 << 31) - 1
"""segment.bytes is a Java int, and so are positions in a segment."""

INDEX_SIZE_BYTES_MAX = 1 << 30
"""segment.index.bytes is 10 MiB by default; a much longer file is no index."""

PRODUCER_SNAPSHOT_SIZE_BYTES_MAX = 1 << 28
"""An entry has 46 bytes; a file for more than five million producers is no snapshot."""

CHECKPOINT_FILE_SIZE_BYTES_MAX = 64 << 20
"""Kafka's text checkpoints have one line per partition or epoch."""
