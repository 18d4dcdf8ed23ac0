"""Columns as Spark accepts them: exact types, sizes of batches, damage as rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logdex.errors import CorruptError, UsageError
from logdex.spark.sources import columns as c
from logdex.spark.sources.damage import CORRUPT, CORRUPT_COLUMN, DamageLog

COLUMNS = [
    c.same("topic", "topic", pa.string()),
    c.timestamp("at", "at_ms"),
    c.same("keys", "keys", pa.list_(pa.string())),
    c.SourceColumn("place", pa.string()),
    CORRUPT_COLUMN,
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
            ("at", c.TIMESTAMP),
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
        (["topic", "topic"], pa.string(), "name columns, each once"),
        (["topic"], pa.int64(), "the column topic is string, not int64"),
        (["keys"], pa.list_(pa.int64()), "the column keys is list"),
    ],
)
def test_wrong_columns(names: list[str], kind: pa.DataType, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        c.Projection(COLUMNS, names, pa.schema([(name, kind) for name in names]))


def test_sizes_of_batches() -> None:
    small = [pa.RecordBatch.from_pydict({"n": pa.array(range(100))})] * 3
    large = pa.RecordBatch.from_pydict({"n": pa.array([b"x" * 1000] * 20_000, pa.binary())})
    many = pa.RecordBatch.from_pydict({"n": pa.array([True] * 200_000)})
    assert [len(each) for each in c.resized(iter(small))] == [300]
    sizes = [each.nbytes for each in c.resized(iter([large]))]
    assert len(sizes) == 8
    assert all(c.BATCH_BYTES_MIN <= size <= c.BATCH_BYTES_MAX for size in sizes)
    assert max(len(each) for each in c.resized(iter([many]))) <= c.BATCH_ROWS_MAX
    assert sum(len(each) for each in c.resized(iter([many]))) == 200_000
    assert list(c.resized(iter([large.slice(0, 0)]))) == []


def test_an_error_comes_behind_the_rows_before_it() -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield BATCH
        raise CorruptError("bad", path="f", position=7)

    read = c.resized(batches())
    assert len(next(read)) == 3
    with pytest.raises(CorruptError):
        next(read)


def test_damage_as_rows() -> None:
    error = CorruptError("the CRC is wrong", path="/log/0", position=7)
    error.end_position = 19
    damage = DamageLog()
    damage.note(error)
    projection = c.Projection(COLUMNS, ["topic", CORRUPT])
    (row,) = (row for batch in damage.rows(projection.schema) for row in batch.to_pylist())
    told = {"file": "/log/0", "begin": 7, "end": 19, "reason": "the CRC is wrong"}
    assert row == {"topic": None, CORRUPT: told}
    assert list(damage.rows(projection.schema)) == []
    damage.note(error)
    assert list(damage.rows(c.Projection(COLUMNS, ["topic"]).schema)) == [], "nobody asked for rows of damage"
    assert damage.noted == 2
