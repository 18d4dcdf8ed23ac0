"""The properties of rows: a map of texts, or a JSON object as text, as the source has them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from logdex.convert.columns.type_names import type_name
from logdex.errors import UsageError

_OWN_COLUMNS = {"TAGS": "tags", "KEYS": "keys", "UNIQ_KEY": "uniqueKey"}
_TEXT_MAP = pa.map_(pa.string(), pa.string())


def property_maps(batch: pa.RecordBatch) -> pa.Array | None:
    """Returns the properties of each row, from `propertyMap` or else `properties`; None if there is
    no such column. A property that has a column of its own is left out if that column is there."""
    names = batch.schema.names
    name = next((each for each in ("propertyMap", "properties") if each in names), None)
    if name is None:
        return None
    left_out = {key for key, column in _OWN_COLUMNS.items() if column in names}
    column = batch.column(name)
    if not pa.types.is_map(column.type) and not _is_text(column.type):
        raise UsageError(
            f"the column {name} is {type_name(column.type)}", hint="make it a map of strings, or JSON text"
        )
    rows = [[(key, value) for key, value in _pairs(each, name) if key not in left_out] for each in column.to_pylist()]
    return pa.array(rows, _TEXT_MAP)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _pairs(value: Any, name: str) -> list[tuple[str, str]]:
    if value is None:
        return []
    found = value
    if isinstance(value, str):
        try:
            found = list(json.loads(value).items()) if value else []
        except (ValueError, AttributeError):
            raise UsageError(f"the column {name} has {value[:60]!r}", hint="say a JSON object of texts") from None
    if not all(isinstance(key, str) and isinstance(text, str) for key, text in found):
        raise UsageError(f"the column {name} has {value!r:.60}", hint="names and values must be texts")
    return list(found)
