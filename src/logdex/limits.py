"""Bounds that every length from disk is checked against before use, each with its reason."""

from __future__ import annotations

MESSAGE_SIZE_BYTES_MAX = 1 << 30
"""A message never spans CommitLog files, and mappedFileSizeCommitLog is 1 GiB by default, an int at most."""

COMMIT_LOG_FILE_SIZE_BYTES_MAX = (1 << 31) - 1
"""mappedFileSizeCommitLog is a Java int."""

BODY_DECOMPRESSED_SIZE_BYTES_MAX = 256 << 20
"""A compressed body is refused beyond this, so that a decompression bomb ends in an error and not in swap."""

HASH_SLOT_NUM_MAX = 1 << 29
"""maxHashSlotNum * 4 must stay within the mapped file's int size."""

INDEX_NUM_MAX = 107_374_180
"""maxIndexNum * 20 must stay within the mapped file's int size."""

CONFIG_FILE_SIZE_BYTES_MAX = 256 << 20
"""config/*.json is read whole; a broker with a million consumer groups stays well below."""

QUERY_MAX_NUM = 64
"""DefaultMessageStore.queryMessage hands out at most maxMsgsNumBatch (64) messages."""

QUEUE_OFFSET_MAX = (1 << 63) // 20 - 1
"""A ConsumeQueue's byte offset (queue offset * 20) is a Java long."""

QUEUE_GAP_MAX = 50_000_000
"""Missing queue offsets of a queue are filled up to this many in all (1 GB of entries). Further ahead, the stored
offset itself is wrong: the CRC does not cover it, and one flipped bit must not fill a disk."""

QUEUE_GAP_FILES_MAX = 1_000
"""Likewise, in ConsumeQueue files: where these are small, the bound above would be millions of them."""

CHECKPOINT_SIZE_BYTES_MAX = 1 << 20
"""A checkpoint has 4096 bytes; whatever is much longer is another file."""

BROKER_CONF_SIZE_BYTES_MAX = 1 << 20
"""A broker's properties file is a few KiB."""

# -- Kafka ---------------------------------------------------------------------------------------------------------

BATCH_SIZE_BYTES_MAX = (1 << 31) - 1
"""A batch lies within one segment, whose positions are Java ints."""

BATCH_DECOMPRESSED_SIZE_BYTES_MAX = 256 << 20
"""A compressed batch is refused beyond this: max.message.bytes is 1 MiB by default, and a decompression bomb must end
in an error and not in swap."""

RECORD_SIZE_BYTES_MIN = 7
"""A record of magic 2 has its length, attributes, two deltas, two lengths and a header count: a byte each at least."""

RELATIVE_OFFSET_MAX = (1 << 31) - 1
"""Offsets in index entries are Java ints, relative to the segment's base offset."""

SEGMENT_SIZE_BYTES_MAX = (1 << 31) - 1
"""segment.bytes is a Java int; so are positions in a segment."""

INDEX_SIZE_BYTES_MAX = 1 << 30
"""segment.index.bytes is 10 MiB by default; an index far beyond that is another file."""

PRODUCER_SNAPSHOT_SIZE_BYTES_MAX = 1 << 28
"""46 bytes a producer: beyond five million producers it is another file."""

CHECKPOINT_FILE_SIZE_BYTES_MAX = 64 << 20
"""Kafka's text checkpoints hold a line a partition or an epoch."""
