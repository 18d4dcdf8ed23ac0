"""The transaction log of Delta Lake, by which an export is a Delta table too: one entry per run,
``_delta_log/00000000000000000000.json``, and so on.

An entry has an action per line, as Delta's protocol describes them: the protocol's version, the
table's metadata, the run as the version of an application's transaction, and the files that the run
adds. It is published with the run's other files. Equal logs give equal bytes, so a file's
modification time is stated as 0.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa

from logdex.convert.export.writer import NO_VALUE, WrittenFile
from logdex.io.env import Env

FOLDER = "_delta_log"
_APPLICATION = "logdex export"
_ENTRY = re.compile(r"(\d{20})\.json")
_PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
_PLAIN = {
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def has_table(output: str, env: Env) -> bool:
    """Returns whether an output is a Delta table."""
    return env.is_dir(f"{output}/{FOLDER}")


def next_entry(output: str, env: Env) -> str:
    """Returns the name of the next entry below the output, whoever wrote the ones before."""
    names = env.list_dir(f"{output}/{FOLDER}") if has_table(output, env) else []
    versions = [int(found[1]) for found in map(_ENTRY.fullmatch, names) if found is not None]
    return f"{FOLDER}/{max(versions, default=-1) + 1:020d}.json"


def entry(run: int, files: Iterable[WrittenFile], schema: pa.Schema, table_id: str | None) -> bytes:
    """Returns the entry of a run that adds `files`, whose rows have `schema`. The first entry of a
    table states what the table is: `table_id` is any text that differs from table to table."""
    actions = [] if table_id is None else [{"protocol": _PROTOCOL}, {"metaData": _metadata(schema, table_id)}]
    actions.append({"txn": {"appId": _APPLICATION, "version": run}})
    actions += [{"add": _add(file)} for file in files]
    return "".join(json.dumps(action) + "\n" for action in actions).encode("ascii")


def _metadata(schema: pa.Schema, table_id: str) -> dict[str, Any]:
    fields = [*_fields(schema), _field("topic", "string"), _field("day", "date")]
    return {
        "id": str(uuid.uuid5(uuid.NAMESPACE_OID, table_id)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["topic", "day"],
        "configuration": {},
    }


def _fields(fields: Iterable[pa.Field]) -> Iterator[dict[str, Any]]:
    for field in fields:
        yield _field(field.name, _type(field.type))


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def _type(kind: pa.DataType) -> Any:
    """Returns a type as Delta's schemas state it."""
    if pa.types.is_map(kind):
        types = {"keyType": _type(kind.key_type), "valueType": _type(kind.item_type)}
        return {"type": "map", **types, "valueContainsNull": True}
    if pa.types.is_list(kind):
        return {"type": "array", "elementType": _type(kind.value_type), "containsNull": True}
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": list(_fields(kind.fields))}
    return _PLAIN[kind]


def _add(file: WrittenFile) -> dict[str, Any]:
    topic, day = (folder.partition("=")[2] for folder in file.name.split("/")[:2])
    return {
        "path": quote(file.name, safe="/="),
        "partitionValues": {
            "topic": None if topic == NO_VALUE else unquote(topic),
            "day": None if day == NO_VALUE else day,
        },
        "size": file.size_bytes,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps({"numRecords": file.rows}),
    }
