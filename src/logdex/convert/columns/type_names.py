"""Types of columns under the names that Spark and SQL have for them, for messages."""

from __future__ import annotations

import pyarrow as pa

_NAMES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "date32[day]": "date",
    "large_string": "string",
    "large_binary": "binary",
}


def type_name(kind: pa.DataType) -> str:
    """Returns the name of a type in SQL, or Arrow's where SQL has no such type."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{type_name(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    return _NAMES.get(str(kind), str(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type's values are bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
