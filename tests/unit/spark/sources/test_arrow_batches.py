"""Batches as Spark gets them: their sizes, and damage as rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from logdex.convert.columns.projection import Projection, same
from logdex.errors import CorruptError
from logdex.spark.sources.arrow_batches import BATCH_BYTES_MAX, BATCH_BYTES_MIN, BATCH_ROWS_MAX, resized
from logdex.spark.sources.damage import CORRUPT, CORRUPT_COLUMN, DamageLog

COLUMNS = [same("topic", "topic", pa.string()), CORRUPT_COLUMN]


def test_sizes_of_batches() -> None:
    small = [pa.RecordBatch.from_pydict({"n": pa.array(range(100))})] * 3
    large = pa.RecordBatch.from_pydict({"n": pa.array([b"x" * 1000] * 20_000, pa.binary())})
    many = pa.RecordBatch.from_pydict({"n": pa.array([True] * 200_000)})
    assert [len(each) for each in resized(iter(small))] == [300]
    sizes = [each.nbytes for each in resized(iter([large]))]
    assert len(sizes) == 8
    assert all(BATCH_BYTES_MIN <= size <= BATCH_BYTES_MAX for size in sizes)
    assert max(len(each) for each in resized(iter([many]))) <= BATCH_ROWS_MAX
    assert sum(len(each) for each in resized(iter([many]))) == 200_000
    assert list(resized(iter([large.slice(0, 0)]))) == []


def test_an_error_comes_behind_the_rows_before_it() -> None:
    def batches():  # type: ignore[no-untyped-def]
        yield pa.RecordBatch.from_pydict({"n": pa.array([1, 2, 3])})
        raise CorruptError("bad", path="f", position=7)

    read = resized(batches())
    assert len(next(read)) == 3
    with pytest.raises(CorruptError):
        next(read)


def test_damage_as_rows() -> None:
    error = CorruptError("the CRC is wrong", path="/log/0", position=7)
    error.end_position = 19
    damage = DamageLog()
    damage.note(error)
    projection = Projection(COLUMNS, ["topic", CORRUPT])
    (row,) = (row for batch in damage.rows(projection.schema) for row in batch.to_pylist())
    told = {"file": "/log/0", "begin": 7, "end": 19, "reason": "the CRC is wrong"}
    assert row == {"topic": None, CORRUPT: told}
    assert list(damage.rows(projection.schema)) == []
    damage.note(error)
    assert list(damage.rows(Projection(COLUMNS, ["topic"]).schema)) == [], "nobody asked for rows of damage"
    assert damage.noted == 2
