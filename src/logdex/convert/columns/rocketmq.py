"""The columns of `rocketmq_store`: those of rocketmq-spark, with its names and types, then ours."""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.columns.projection import SourceColumn, same, timestamp

_TEXTS = pa.list_(pa.string())
_TEXT_MAP = pa.map_(pa.string(), pa.string())
_CONTROL = "[\\x00-\\x1f]"


def json_objects(maps: pa.MapArray) -> pa.StringArray:
    """Returns maps of texts as JSON objects, with their pairs in the same order."""
    names, values = _escaped(maps.keys), _escaped(maps.items)
    pairs = pc.binary_join_element_wise('"', names, '":"', values, '"', "")
    lists = pa.ListArray.from_arrays(maps.offsets, pairs)
    return pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")


def _escaped(texts: pa.StringArray) -> pa.StringArray:
    found = pc.replace_substring(pc.replace_substring(texts, "\\", "\\\\"), '"', '\\"')
    if pc.any(pc.match_substring_regex(found, _CONTROL)).as_py():
        codes = range(0x20)
        found = reduce(lambda text, code: pc.replace_substring(text, chr(code), f"\\u{code:04x}"), codes, found)
    return found


COLUMNS = (
    same("topic", "topic", pa.string()),
    same("flag", "flag", pa.int32()),
    SourceColumn(
        "body", pa.binary(), ("body", "sys_flag", "physical_offset"), lambda batch: batch.column("body"), nullable=True
    ),
    SourceColumn("properties", pa.string(), ("properties",), lambda batch: json_objects(batch.column("properties"))),
    SourceColumn("brokerName", pa.string()),
    same("queueId", "queue_id", pa.int32()),
    same("queueOffset", "queue_offset", pa.int64()),
    timestamp("bornTimestamp", "born_timestamp_ms"),
    timestamp("storeTimestamp", "store_timestamp_ms"),
    same("tags", "tags", pa.string(), nullable=True),
    same("keys", "keys", _TEXTS),
    same("uniqueKey", "unique_key", pa.string(), nullable=True),
    same("propertyMap", "properties", _TEXT_MAP),
    same("physicalOffset", "physical_offset", pa.int64()),
    same("sizeBytes", "size_bytes", pa.int32()),
    same("msgId", "msg_id", pa.string()),
    same("sysFlag", "sys_flag", pa.int32()),
    same("bornHost", "born_host", pa.string()),
    same("storeHost", "store_host", pa.string()),
    same("reconsumeTimes", "reconsume_times", pa.int32()),
    same("preparedTransactionOffset", "prepared_transaction_offset", pa.int64()),
    same("bodyCrc", "body_crc", pa.int64()),
)
"""`body` reads the columns that decompressing needs. `properties` is a JSON object, as in
rocketmq-spark; `propertyMap` is the same as a map. A body is null where it cannot be decompressed,
and damage is not to fail."""

NAMES = tuple(column.name for column in COLUMNS)
NEVER_NULL = frozenset(column.name for column in COLUMNS if not column.nullable)
