"""The names of types in messages."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logdex.convert.columns.type_names import type_name


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (pa.int64(), "bigint"),
        (pa.bool_(), "boolean"),
        (pa.float64(), "double"),
        (pa.large_binary(), "binary"),
        (pa.large_string(), "string"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("ms"), "timestamp_ntz"),
        (pa.date32(), "date"),
        (pa.decimal128(10, 2), "decimal(10,2)"),
        (pa.map_(pa.string(), pa.int32()), "map<string,int>"),
        (
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.large_binary())])),
            "array<struct<key:string,value:binary>>",
        ),
        (pa.uint64(), "uint64"),
    ],
)
def test_type_names(kind: pa.DataType, name: str) -> None:
    assert type_name(kind) == name
