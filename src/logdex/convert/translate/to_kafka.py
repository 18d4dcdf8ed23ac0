"""RocketMQ's messages as Kafka's records: whole columns, but for records that came from Kafka."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.translate.names import MESSAGE_FIELDS, MESSAGE_HEADER, RECORD_PROPERTY, RecordFields, parse_record
from logdex.rocketmq.columns.plain_flags import without_form

READS = (
    "topic",
    "queue_id",
    "queue_offset",
    "body",
    "properties",
    "flag",
    "sys_flag",
    "born_timestamp_ms",
    "born_host",
    "store_timestamp_ms",
    "store_host",
    "reconsume_times",
    "prepared_transaction_offset",
)
"""The columns of a read of a store that a conversion needs."""

_HEADER = pa.struct([("key", pa.binary()), ("value", pa.binary())])
SCHEMA = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("timestamp_ms", pa.int64()), ("headers", pa.list_(_HEADER))]
)


def records_of(messages: pa.RecordBatch) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Returns the records of some messages, and the offset that each should have."""
    properties = messages.column("properties")
    offsets = messages.column("queue_offset").to_numpy().copy()
    born = messages.column("born_timestamp_ms").to_numpy()
    columns = [
        pc.map_lookup(properties, "KEYS", "first").cast(pa.binary()),
        messages.column("body"),
        pa.array(np.maximum(born, -1)),
        _headers(messages, properties),
    ]
    table = pa.Table.from_arrays(columns, schema=SCHEMA)
    texts = pc.map_lookup(properties, RECORD_PROPERTY, "first")
    if texts.null_count == len(texts):
        return table, offsets
    return _restored(table, texts, offsets)


def _headers(messages: pa.RecordBatch, properties: pa.MapArray) -> pa.ListArray:
    """Returns the properties of each message, and `MESSAGE_HEADER` behind them."""
    count = len(messages)
    ends = properties.offsets.to_numpy()
    first, total = int(ends[0]), int(ends[-1] - ends[0])
    new_ends = (ends - first + np.arange(count + 1)).astype(np.int32)
    places = np.empty(total + count, np.int64)
    is_last = np.zeros(total + count, np.bool_)
    is_last[new_ends[1:] - 1] = True
    places[is_last], places[~is_last] = total + np.arange(count), np.arange(total)
    names = pa.concat_arrays(
        [properties.keys.slice(first, total).cast(pa.binary()), pa.repeat(MESSAGE_HEADER.encode(), count)]
    )
    values = pa.concat_arrays([properties.items.slice(first, total).cast(pa.binary()), _stored_fields(messages)])
    taken = pa.array(places)
    pairs = pa.StructArray.from_arrays([names.take(taken), values.take(taken)], fields=list(_HEADER))
    return pa.ListArray.from_arrays(pa.array(new_ends), pairs)


def _stored_fields(messages: pa.RecordBatch) -> pa.Array:
    flags = pa.array(without_form(messages.column("sys_flag").to_numpy()))
    columns: dict[str, Any] = {
        "flag": messages.column("flag"),
        "sysFlag": flags,
        "bornTimestamp": messages.column("born_timestamp_ms"),
        "bornHost": messages.column("born_host"),
        "storeTimestamp": messages.column("store_timestamp_ms"),
        "storeHost": messages.column("store_host"),
        "reconsumeTimes": messages.column("reconsume_times"),
        "preparedTransactionOffset": messages.column("prepared_transaction_offset"),
        "topic": messages.column("topic"),
    }
    texts = [pc.binary_join_element_wise(f"{name}=", columns[name].cast(pa.string()), "") for name in MESSAGE_FIELDS]
    return pc.binary_join_element_wise(*texts, ";").cast(pa.binary())


def _restored(
    table: pa.Table, texts: pa.Array, offsets: npt.NDArray[np.int64]
) -> tuple[pa.Table, npt.NDArray[np.int64]]:
    """Replaces the rows of records that came from Kafka by these records."""
    found: dict[int, RecordFields] = {}
    for row in np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False)).tolist():
        fields = parse_record(texts[row].as_py())
        if fields is not None:
            found[row] = fields
    rows, places = [], np.arange(len(table))
    for number, (row, fields) in enumerate(found.items()):
        value = None if fields.is_null else table.column("value")[row].as_py()
        headers = [{"key": name, "value": each} for name, each in fields.headers]
        rows.append({"key": fields.key, "value": value, "timestamp_ms": fields.timestamp_ms, "headers": headers})
        places[row] = len(table) + number
        offsets[row] = fields.offset
    both = pa.concat_tables([table, pa.Table.from_pylist(rows, SCHEMA)]).combine_chunks()
    return both.take(pa.array(places)), offsets
