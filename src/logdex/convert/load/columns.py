"""The columns of a table as those that the engines put: in their names and types."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.columns.properties import property_maps
from logdex.convert.columns.rows import times_ms, topics_of, typed
from logdex.convert.columns.table_form import FORMS
from logdex.convert.translate.to_kafka import SCHEMA
from logdex.convert.translate.undelivered import Undelivered
from logdex.errors import UsageError
from logdex.primitives.wrong_questions import nearest_names
from logdex.rocketmq.columns.plain_flags import are_queued

KAFKA = frozenset(("topic", "partition", "offset", "key", "value", "timestamp", "headers"))
"""The columns that become records."""
ROCKETMQ = frozenset(
    ("topic", "queueId", "body", "tags", "keys", "uniqueKey", "properties", "propertyMap", "bornTimestamp")
)
"""The columns that become messages."""
USED = {"kafka": KAFKA, "rocketmq": ROCKETMQ}

_KINDS = {"key": pa.binary(), "value": pa.binary(), "headers": SCHEMA.field("headers").type}
_TEXTS = {"body": pa.large_binary(), "queueId": pa.int32(), "tags": pa.string(), "uniqueKey": pa.string()}
_NAMES = {"queueId": "queue_id", "uniqueKey": "unique_key"}
_SYS_FLAG, _IS_CONTROL, _IS_TRANSACTIONAL = "sysFlag", "isControl", "isTransactional"


def left_out(names: list[str], used: frozenset[str]) -> list[str]:
    """Returns the columns that have no place in the other format."""
    return [name for name in names if name not in used and name != "day"]


def require_no_misspelt(path: str, names: list[str], format_name: str, *, has_topic: bool) -> None:
    """Raises `UsageError` for a column that no format's export has, and whose name is nearly that
    of one that is missing, or its name in SQL. With `has_topic` the topic is not missing."""
    used = USED[format_name]
    missing = used - set(names) - ({"topic"} if has_topic else set())
    in_sql = {column.reads[0]: column.name for column in FORMS[format_name].columns if column.is_same}
    renamed = [f'{name} AS "{in_sql[name]}"' for name in left_out(names, used) if in_sql.get(name) in missing]
    if renamed:
        hint = f"write SELECT {', '.join(renamed)}, with --decompress for bodies; or use logdex export"
        raise UsageError(f"{path}: its columns have the names of SQL's tables", hint=hint)
    known = {column.name for form in FORMS.values() for column in form.columns}
    for name in left_out(names, used):
        if name not in known and (found := nearest_names(name, missing)):
            hint = f"did you mean {found[0]!r}? Rename the column, or leave it out"
            raise UsageError(f"{path}: the column {name!r} is unknown", hint=hint)


def records(batch: pa.RecordBatch, now_ms: int) -> pa.Table:
    """Returns the key, value, time and headers of each row, and what `of_clients` looks at. Raises
    `UsageError` for messages of RocketMQ."""
    _require(batch, "value", "body", "rocketmq")
    arrays = {name: typed(batch, name, _KINDS) for name in _KINDS}
    columns = {name: pa.nulls(len(batch), _KINDS[name]) if each is None else each for name, each in arrays.items()}
    columns["timestamp_ms"] = times_ms(batch, "timestamp", now_ms)
    table = pa.Table.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
    for name in (_IS_CONTROL, _IS_TRANSACTIONAL):
        if (flags := typed(batch, name, {name: pa.bool_()})) is not None:
            table = table.append_column(name, flags.fill_null(False))
    return table


def of_clients(rows: pa.Table, offsets: npt.NDArray[np.int64]) -> tuple[pa.Table, npt.NDArray[np.int64], int]:
    """Returns the records, and their offsets, without control records: these end transactions,
    which the new log does not have. Then, how many records are of transactions."""
    if _IS_CONTROL in rows.column_names:
        is_data = ~rows.column(_IS_CONTROL).to_numpy()
        rows, offsets = rows.filter(pa.array(is_data)), offsets[is_data]
    transactional = pc.sum(rows.column(_IS_TRANSACTIONAL)).as_py() if _IS_TRANSACTIONAL in rows.column_names else 0
    return rows.select(SCHEMA.names), offsets, transactional or 0


def messages(batch: pa.RecordBatch, now_ms: int) -> pa.Table:
    """Returns the columns that `MessageStore.put_columns` takes, and what `to_deliver` looks at.
    Raises `UsageError` for records of Kafka."""
    _require(batch, "body", "value", "kafka")
    columns = {_NAMES.get(name, name): typed(batch, name, _TEXTS) for name in _TEXTS}
    if columns["queue_id"] is None:
        columns["queue_id"] = pa.repeat(pa.scalar(0, pa.int32()), len(batch))
    columns["topic"] = topics_of(batch, None)
    columns["keys"] = batch.column("keys") if "keys" in batch.schema.names else None
    columns["properties"] = property_maps(batch)
    columns["born_timestamp_ms"] = times_ms(batch, "bornTimestamp", now_ms)
    columns[_SYS_FLAG] = typed(batch, _SYS_FLAG, {_SYS_FLAG: pa.int32()})
    present = {name: column for name, column in columns.items() if column is not None}
    return pa.Table.from_arrays(list(present.values()), list(present))


def to_deliver(topic: str, rows: pa.Table, left_out: Undelivered) -> pa.Table:
    """Returns those of the messages of a topic that consumers of it got."""
    if left_out.of_topic(topic, len(rows)):
        return rows.slice(0, 0)
    if _SYS_FLAG not in rows.column_names:
        return rows
    queued = are_queued(rows.column(_SYS_FLAG).fill_null(0).to_numpy())
    left_out.in_no_queue(topic, int((~queued).sum()))
    return rows.filter(pa.array(queued)).drop_columns([_SYS_FLAG])


def _require(batch: pa.RecordBatch, needed: str, other: str, other_format: str) -> None:
    """Raises `UsageError` for rows of the other format, of which nothing would be left."""
    if needed not in batch.schema.names and other in batch.schema.names:
        hint = f"import with --format {other_format}, then use logdex convert; or rename the column"
        raise UsageError(f"there is no column {needed}, but a column {other}", hint=hint)


def numbers(batch: pa.RecordBatch, name: str) -> npt.NDArray[np.int64] | None:
    """Returns a column of whole numbers, None if it is not there. Raises `UsageError` for nulls."""
    column = typed(batch, name, {name: pa.int64()})
    if column is None:
        return None
    if column.null_count:
        raise UsageError(f"the column {name} has nulls", hint="leave the column out, or fill them")
    found: npt.NDArray[np.int64] = column.to_numpy()
    return found


def place_rows(batch: pa.RecordBatch, number: str) -> list[tuple[str, int, npt.NDArray[np.int64]]]:
    """Returns each topic and number of a queue or partition, which is 0 if no column states it, and
    which rows are of it."""
    topics = topics_of(batch, None).dictionary_encode()
    places = numbers(batch, number)
    places = np.zeros(len(batch), np.int64) if places is None else places
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < 1 << 31:
        raise UsageError(f"the column {number} has {places.min()} to {places.max()}", hint="use 0 to 2147483647")
    kinds, inverse, counts = np.unique(
        (topics.indices.to_numpy().astype(np.int64) << 32) | places, return_inverse=True, return_counts=True
    )
    rows = np.split(np.argsort(inverse, kind="stable"), np.cumsum(counts)[:-1])
    names = topics.dictionary.to_pylist()
    return [(names[kind >> 32], kind & 0xFFFFFFFF, each) for kind, each in zip(kinds.tolist(), rows, strict=True)]
