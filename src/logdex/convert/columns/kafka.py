"""The columns of `kafka_log`: those of Spark's own `kafka` source, with its names and types, then
ours; and those of batches as they are stored, by the names of Kafka's headers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from logdex.convert.columns.projection import SourceColumn, as_type, same, timestamp

HEADERS = "headers"
_HEADER_TYPE = pa.struct([("key", pa.string()), ("value", pa.binary())])
_TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def timestamp_types(batch: pa.RecordBatch) -> pa.Array:
    """Returns the kinds of timestamps as Kafka's clients number them."""
    column = batch.column("timestamp_type")
    numbers = np.array([_TIMESTAMP_TYPES[name] for name in column.dictionary.to_pylist()], np.int32)
    return pa.array(numbers[column.indices.to_numpy()])


def headers(batch: pa.RecordBatch) -> pa.Array:
    """Returns the headers, null for a record without any, as Spark's source has them."""
    lists = batch.column("headers")
    pairs = lists.values
    structs = pa.StructArray.from_arrays([_texts(pairs.field(0)), pairs.field(1)], fields=list(_HEADER_TYPE))
    empty = pa.array(np.diff(lists.offsets.to_numpy()) == 0)
    return pa.ListArray.from_arrays(lists.offsets, structs, mask=empty)


def _texts(stored: pa.Array) -> pa.Array:
    """Returns stored bytes as text. Only where some are not UTF-8 are they converted one by one."""
    try:
        return as_type(stored, pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode("utf-8", "backslashreplace") for each in stored.to_pylist()], pa.string())


_PLACE = (same("topic", "topic", pa.string()), same("partition", "partition", pa.int32()))
_TIMESTAMP_TYPE = SourceColumn("timestampType", pa.int32(), ("timestamp_type",), timestamp_types)
_FLAGS = (same("isTransactional", "is_transactional", pa.bool_()), same("isControl", "is_control", pa.bool_()))
_LOG_DIR = SourceColumn("logDir", pa.string())

COLUMNS = (
    same("key", "key", pa.binary(), nullable=True),
    same("value", "value", pa.binary(), nullable=True),
    *_PLACE,
    same("offset", "offset", pa.int64()),
    timestamp("timestamp", "timestamp_ms"),
    _TIMESTAMP_TYPE,
    SourceColumn(HEADERS, pa.list_(_HEADER_TYPE), ("headers",), headers, nullable=True),
    same("producerId", "producer_id", pa.int64()),
    same("producerEpoch", "producer_epoch", pa.int16()),
    same("sequence", "sequence", pa.int32()),
    same("leaderEpoch", "leader_epoch", pa.int32()),
    *_FLAGS,
    _LOG_DIR,
)

NAMES = tuple(column.name for column in COLUMNS)

BATCH_COLUMNS = (
    *_PLACE,
    same("baseOffset", "base_offset", pa.int64()),
    same("lastOffset", "last_offset", pa.int64()),
    same("recordCount", "record_count", pa.int32(), nullable=True),
    timestamp("baseTimestamp", "base_timestamp_ms"),
    timestamp("maxTimestamp", "max_timestamp_ms"),
    _TIMESTAMP_TYPE,
    same("compression", "compression", pa.string()),
    same("magic", "magic", pa.int8()),
    same("leaderEpoch", "leader_epoch", pa.int32()),
    same("producerId", "producer_id", pa.int64()),
    same("producerEpoch", "producer_epoch", pa.int16()),
    same("baseSequence", "base_sequence", pa.int32()),
    *_FLAGS,
    same("position", "position", pa.int64()),
    same("sizeBytes", "size_bytes", pa.int32()),
    same("batch", "batch", pa.binary()),
    _LOG_DIR,
)
"""The columns of a batch as it is stored. Both offsets and both timestamps of magic 0 and 1 are the
stored ones."""

NEVER_NULL = frozenset(column.name for column in (*COLUMNS, *BATCH_COLUMNS) if not column.nullable)
