"""Arrow record batches of the messages of a scan, built column by column without a Python object
per message.

One pass copies what a batch holds from the mapped file; all later steps use the copy only.
Properties that the kernels do not parse (`logdex.kernels.rocketmq.property_columns`: not UTF-8, a
repeated name, more than 64 pairs) are parsed in Python, message by message. The text of a host is
cached. The plain twin is in `message_arrow`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from logdex.errors import UnreadableError, UsageError
from logdex.kernels.rocketmq import message_gather as gather
from logdex.kernels.rocketmq import property_columns as kernel
from logdex.kernels.rocketmq.message_scan import ColumnAddresses, Int64s
from logdex.layout.rocketmq import HOST_V4_SIZE_BYTES, HOST_V6_SIZE_BYTES, SYS_FLAG_BORN_HOST_V6, SYS_FLAG_STORE_HOST_V6
from logdex.primitives.host import Host
from logdex.primitives.wrong_questions import nearest, require_column_names
from logdex.rocketmq.columns.message_arrow import SCHEMA
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.message.properties import format_properties, parse_properties
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window

BATCH_MESSAGES = 4_096
BATCH_BYTES = 16 << 20
"""The most stored bytes in a batch, unless it holds a single message. This bounds the memory for
bodies of any size."""


PROPERTY_COLUMNS = frozenset(("properties", "tags", "keys", "unique_key"))
"""The columns that are made from a message's properties."""


def schema_of(columns: Sequence[str] | None) -> pa.Schema:
    """Returns the schema of some columns, in the order given; None: of all.

    Raises `UsageError` for a name that is no column, for a name that is given twice, and for none.
    """
    if columns is None:
        return SCHEMA
    require_column_names(columns)
    strange = sorted(set(columns) - set(SCHEMA.names))
    if strange or not columns or len(set(columns)) < len(columns):
        known = {name: name for name in SCHEMA.names}
        what = f"no column {strange[0]!r}" if strange else "say which columns, each once"
        raise UsageError(what, hint=nearest(str(strange[0]) if strange else "", known, known))
    return pa.schema([SCHEMA.field(name) for name in columns])


def to_record_batches(
    windows: Iterable[tuple[Window, Int64s]], table: TopicTable, columns: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """Returns a reader over some columns (None: all) of the selected rows of each window of a scan.
    The scan continues as batches are read. See `make_batches`."""
    return pa.RecordBatchReader.from_batches(schema_of(columns), make_batches(windows, table, columns))


def make_batches(
    windows: Iterable[tuple[Window, Int64s]], table: TopicTable, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the batches of `to_record_batches`, combining the rows of consecutive windows while
    they are few.

    `table` is the scanner's table of topics. A batch has at most `BATCH_MESSAGES` messages and,
    unless it holds a single message, at most `BATCH_BYTES` stored bytes.
    """
    schema = schema_of(columns)
    waiting: list[pa.RecordBatch] = []
    messages = size_bytes = 0
    try:
        for window, rows in windows:
            for part in _parts(window, rows):
                part_bytes = int(window.columns.size[part].sum(dtype=np.int64))
                if messages + len(part) > BATCH_MESSAGES or size_bytes + part_bytes > BATCH_BYTES:
                    yield from _joined(waiting)
                    waiting, messages, size_bytes = [], 0, 0
                batch = _to_batch(window, part, table, schema)
                window.require_readable(part)
                waiting.append(batch)
                messages += len(part)
                size_bytes += part_bytes
    except UnreadableError:
        yield from _joined(waiting)
        raise
    yield from _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _parts(window: Window, rows: Int64s) -> Iterator[Int64s]:
    """Yields the rows in parts that fit into one batch each."""
    ends = np.cumsum(window.columns.size[rows], dtype=np.int64)
    start = 0
    while start < len(rows):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(start + BATCH_MESSAGES, max(fitting, start + 1))
        yield rows[start:stop]
        start = stop


def _to_batch(window: Window, rows: Int64s, table: TopicTable, schema: pa.Schema) -> pa.RecordBatch:
    columns, names = window.columns, frozenset(schema.names)
    scanned: dict[str, npt.NDArray[Any]] = {
        "queue_offset": columns.queue_offset,
        "physical_offset": columns.position,
        "size_bytes": columns.size,
        "sys_flag": columns.sys_flag,
        "born_timestamp_ms": columns.born_timestamp_ms,
        "store_timestamp_ms": columns.store_timestamp_ms,
    }
    arrays = {name: pa.array(column[rows]) for name, column in scanned.items() if name in names}
    if "topic" in names:
        arrays["topic"] = _topics(columns.queue[rows], table)
    if names - arrays.keys():
        arrays |= _gathered(window, rows, names)
    return pa.RecordBatch.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _topics(queues: npt.NDArray[np.int32], table: TopicTable) -> pa.Array:
    """Returns the topics of queues given by number. Two topics may have the same text."""
    met = pa.array(queues).dictionary_encode()
    texts = pa.array([to_text(table.queues[queue].topic) for queue in met.dictionary.to_pylist()], pa.string())
    topics = texts.dictionary_encode()
    return pa.DictionaryArray.from_arrays(topics.indices.take(met.indices), topics.dictionary)


class _Buffers:
    """Named buffers that a kernel fills, and the Arrow arrays that use them without a copy."""

    def __init__(self, sizes_bytes: dict[str, int]) -> None:
        self._buffers = {name: pa.allocate_buffer(size) for name, size in sizes_bytes.items()}

    def addresses(self, names: Iterable[str]) -> list[int]:
        """Where the buffers lie; 0 for one that is not there."""
        return [int(self._buffers[name].address) if name in self._buffers else 0 for name in names]

    def numbers(self, name: str, kind: pa.DataType, count: int) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None, self._buffers[name]])

    def bytes(self, name: str, kind: pa.DataType, count: int) -> pa.Array:
        valid = None
        if f"{name}_valid" in self._buffers:
            flags = np.frombuffer(self._buffers[f"{name}_valid"], np.uint8)
            valid = None if flags.all() else pa.py_buffer(np.packbits(flags, bitorder="little"))
        return pa.Array.from_buffers(kind, count, [valid, self._buffers[f"{name}_ends"], self._buffers[f"{name}_data"]])

    def nested(self, name: str, kind: pa.DataType, count: int, child: pa.Array) -> pa.Array:
        return pa.Array.from_buffers(kind, count, [None, self._buffers[f"{name}_ends"]], children=[child])


def _gathered(window: Window, rows: Int64s, names: frozenset[str]) -> dict[str, pa.Array]:
    """Returns those of the columns `names` that are read from the messages' bytes, and the numbers
    that are read with them."""
    columns, count = window.columns, len(rows)
    sys_flags, more = columns.sys_flag[rows], HOST_V6_SIZE_BYTES - HOST_V4_SIZE_BYTES
    store_hosts_v6 = int(np.count_nonzero(sys_flags & SYS_FLAG_STORE_HOST_V6))
    data_bytes = {
        "born_host": HOST_V4_SIZE_BYTES * count + more * int(np.count_nonzero(sys_flags & SYS_FLAG_BORN_HOST_V6)),
        "store_host": HOST_V4_SIZE_BYTES * count + more * store_hosts_v6,
        "body": int(columns.body_length[rows].sum(dtype=np.int64)),
        "properties": int(columns.properties_length[rows].sum(dtype=np.int64)) + kernel.SLACK,
        "msg_id": 2 * (HOST_V4_SIZE_BYTES + 8) * count + 2 * more * store_hosts_v6,
    }
    wanted = names | ({"properties"} if names & PROPERTY_COLUMNS else frozenset())
    numbers = ("queue_id", "flag", "reconsume_times", "body_crc", "prepared_transaction_offset")
    sizes = {name: (8 if SCHEMA.field(name).type == pa.int64() else 4) * count for name in numbers}
    sizes |= {f"{name}_ends": 4 * count + 4 for name in data_bytes}
    sizes |= {f"{name}_data": size for name, size in data_bytes.items() if name in wanted}
    out = _Buffers(sizes)
    targets = gather.GatherTargets._make(out.addresses(gather.GatherTargets._fields))
    places = ColumnAddresses._make([*(column.ctypes.data for column in columns), window.count, window.key_count])
    rows, begins = np.ascontiguousarray(rows, np.int64), window.places(rows)
    base, scratch = window.data.ctypes.data, np.zeros(1, np.int64)
    gather.gather_messages(base, begins.ctypes.data, rows.ctypes.data, count, places, targets, scratch.ctypes.data)
    arrays = {name: out.numbers(name, SCHEMA.field(name).type, count) for name in numbers}
    for name in ("born_host", "store_host"):
        if name in wanted:
            arrays[name] = _host_texts(out.bytes(name, pa.binary(), count))
    for name in ("body", "msg_id"):
        if name in wanted:
            arrays[name] = out.bytes(name, SCHEMA.field(name).type, count)
    if "properties" in wanted:
        arrays |= property_columns(out.bytes("properties", pa.binary(), count))
    return arrays


def _host_texts(hosts: pa.Array) -> pa.Array:
    met = hosts.dictionary_encode()
    return pa.array([_host_text(host) for host in met.dictionary.to_pylist()], pa.string()).take(met.indices)


@lru_cache(maxsize=1 << 14)
def _host_text(host: bytes) -> str:
    return str(Host.unpack(host))


def property_columns(raws: pa.Array) -> dict[str, pa.Array]:
    """Returns the columns that are derived from raw properties (binary, without nulls, `SLACK`
    spare bytes after the data)."""
    count = len(raws)
    ats, sizes = _places(raws, count)
    pairs, odd = np.empty(kernel.SCRATCH_SIZE, np.int64), np.zeros(count, np.uint8)
    totals = _count(ats, sizes, 0, odd, pairs)
    odd_rows = np.flatnonzero(odd)
    plain = _plain_properties(raws, odd_rows)  # must stay alive until the kernel is done with it
    if len(odd_rows):
        ats[odd_rows], sizes[odd_rows] = _places(plain, len(odd_rows))
        totals += _count(ats[odd_rows], sizes[odd_rows], 1, odd, pairs)
    return _put(ats, sizes, totals, odd, pairs)


def _places(raws: pa.Array, count: int) -> tuple[Int64s, Int64s]:
    """Returns the addresses and the sizes of the first `count` values of an array, which may begin
    anywhere in its buffers."""
    ends = np.frombuffer(raws.buffers()[1], np.int32)[: count + 1].astype(np.int64)
    return ends[:-1] + raws.buffers()[2].address, np.diff(ends)


def _plain_properties(raws: pa.Array, rows: Int64s) -> pa.Array:
    """Parses odd properties, converts them to valid UTF-8 and formats them again. This is the slow
    way, message by message."""
    plain = []
    for row in rows.tolist():
        parsed = parse_properties(raws[row].as_py())
        plain.append(
            format_properties((to_text(name).encode(), to_text(value).encode()) for name, value in parsed.items())
        )
    return pa.array([*plain, bytes(kernel.SLACK)], pa.binary())


_NOTHING = kernel.PropertyTargets._make([0] * len(kernel.PropertyTargets._fields))


def _count(ats: Int64s, sizes: Int64s, checked: int, odd: npt.NDArray[np.uint8], pairs: Int64s) -> Int64s:
    state = np.zeros(kernel.STATE_SIZE, np.int64)
    places: list[Any] = [ats.ctypes.data, sizes.ctypes.data, len(ats), checked, odd.ctypes.data, pairs.ctypes.data]
    kernel.put_properties(*places, _NOTHING, state.ctypes.data)
    return state


def _put(ats: Int64s, sizes: Int64s, totals: Int64s, odd: npt.NDArray[np.uint8], pairs: Int64s) -> dict[str, pa.Array]:
    """Returns the columns, in buffers of exactly the sizes in `totals`."""
    count, pair_count, key_count = len(ats), int(totals[kernel.PAIRS]), int(totals[kernel.KEYS])
    room = {
        "pair": (count, 0),
        "name": (pair_count, int(totals[kernel.NAME_BYTES])),
        "value": (pair_count, int(totals[kernel.VALUE_BYTES])),
        "keys": (count, 0),
        "key": (key_count, int(totals[kernel.KEY_BYTES])),
        "tags": (count, int(totals[kernel.TAG_BYTES])),
        "unique_key": (count, int(totals[kernel.UNIQUE_KEY_BYTES])),
    }
    out = _Buffers(
        {f"{name}_ends": 4 * texts + 4 for name, (texts, _) in room.items()}
        | {f"{name}_data": size for name, (_, size) in room.items()}
        | {f"{name}_valid": count for name in ("tags", "unique_key")}
    )
    targets = kernel.PropertyTargets._make(out.addresses(kernel.PropertyTargets._fields))
    state = np.zeros(kernel.STATE_SIZE, np.int64)
    places: list[Any] = [ats.ctypes.data, sizes.ctypes.data, count, 1, odd.ctypes.data, pairs.ctypes.data]
    kernel.put_properties(*places, targets, state.ctypes.data)
    names, values = out.bytes("name", pa.string(), pair_count), out.bytes("value", pa.string(), pair_count)
    kind = SCHEMA.field("properties").type
    entries = pa.StructArray.from_arrays([names, values], fields=[kind.key_field, kind.item_field])
    return {
        "properties": out.nested("pair", kind, count, entries),
        "keys": out.nested("keys", SCHEMA.field("keys").type, count, out.bytes("key", pa.string(), key_count)),
        "tags": out.bytes("tags", pa.string(), count),
        "unique_key": out.bytes("unique_key", pa.string(), count),
    }
