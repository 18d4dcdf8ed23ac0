"""Columns of a log as a table: exact types, and errors for names and types that cannot be."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logdex.convert.columns import projection as c
from logdex.errors import UsageError
from logdex.frames.times import TIMESTAMP

COLUMNS = [
    c.same("topic", "topic", pa.string()),
    c.timestamp("at", "at_ms"),
    c.same("keys", "keys", pa.list_(pa.string())),
    c.SourceColumn("place", pa.string()),
]
BATCH = pa.RecordBatch.from_pydict(
    {
        "topic": pa.array(["a", "b", "a"]).dictionary_encode(),
        "at_ms": pa.array([0, -1, (1 << 63) - 1]),
        "keys": pa.array([["x"], [], ["y", "z"]]),
    }
)


def test_exact_types() -> None:
    names = ["place", "at", "topic", "keys"]
    exact = pa.schema(
        [
            pa.field("place", pa.string(), nullable=False),
            ("at", TIMESTAMP),
            ("topic", pa.string()),
            ("keys", pa.list_(pa.field("element", pa.string()))),
        ]
    )
    projection = c.Projection(COLUMNS, names, exact)
    assert projection.reads == ("at_ms", "topic", "keys")
    made = projection.convert(BATCH, {"place": "here"})
    assert made.schema.equals(exact)
    made.validate(full=True)
    assert made.column("place").to_pylist() == ["here"] * 3
    assert made.column("at").cast(pa.int64()).to_pylist() == [0, -1000, ((1 << 63) - 1) // 1000 * 1000]
    assert made.column("topic").to_pylist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("names", "kind", "said"),
    [
        (["topik"], pa.string(), "did you mean topic"),
        (["topic", "Topic"], pa.string(), "name columns, each once"),
        (["topic", "topic"], pa.string(), "name columns, each once"),
        (["topic"], pa.int64(), "the column topic is string, not bigint"),
        (["keys"], pa.list_(pa.int64()), "the column keys is array<string>, not array<bigint>"),
    ],
)
def test_wrong_columns(names: list[str], kind: pa.DataType, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        c.Projection(COLUMNS, names, pa.schema([(name, kind) for name in names]))
