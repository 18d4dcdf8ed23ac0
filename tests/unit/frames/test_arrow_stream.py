"""Scans as streams of Arrow's C data interface."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import logdex
from logdex.errors import IncompleteReadWarning, UsageError
from logdex.frames.times import TIMESTAMP


@pytest.fixture(params=["store", "logs"])
def snapshot(request: pytest.FixtureRequest, golden_store: Any, golden_log: Any) -> Iterator[Any]:
    path = golden_store("tiny-5.5.0") if request.param == "store" else golden_log("tiny-broker")
    with logdex.open(path) as opened:
        yield opened


def test_a_stream_has_all_rows_and_the_times(snapshot: Any) -> None:
    expected = snapshot.scan().to_arrow().read_all()
    scan = snapshot.scan()
    warnings.simplefilter("error", IncompleteReadWarning)
    for _ in range(2):  # each stream reads the log anew
        found = pa.table(scan)
        assert found.select(expected.column_names).equals(expected)
    times = [name for name in expected.column_names if name.endswith("timestamp_ms")]
    assert times
    for name in times:
        column = found.column(name.removesuffix("_ms"))
        assert column.type == TIMESTAMP
        assert column.cast(pa.int64()).to_pylist() == [each * 1000 for each in found.column(name).to_pylist()]


def test_timestamps_can_be_named(snapshot: Any) -> None:
    rows = pa.table(snapshot.scan())
    times = [name for name in rows.column_names if name.endswith("timestamp")]
    assert times
    for name in times:
        for names in ([name], [f"{name}_ms", "topic", name], (name, f"{name}_ms")):
            assert pa.table(snapshot.to_arrow(names)) == rows.select(names)
            some = snapshot.scan(limit=3).to_arrow(names).read_all()
            assert some.to_pylist() == rows.select(names).slice(0, 3).to_pylist()
        assert snapshot.scan().to_polars([name]).columns == [name]
        assert list(snapshot.scan().to_pandas([name])) == [name]
    with pytest.raises(UsageError, match="no column 'times'"):
        snapshot.scan().to_arrow([times[0], "times"])


def test_eager_frames_have_the_columns_of_lazy_ones(snapshot: Any) -> None:
    names = snapshot.scan().to_dataset().schema.names
    frame = snapshot.scan().to_pandas()
    assert list(frame) == names
    assert frame["topic"].dtype == "category"
    assert snapshot.scan().to_polars().equals(snapshot.scan().to_lazy_polars().collect())
    with pytest.raises(UsageError, match=r"no column 'topik' .did you mean topic"):
        snapshot.scan().to_pandas(["topik"])


@pytest.mark.parametrize("way", ["to_arrow", "to_pandas", "to_polars"])
def test_columns_are_a_list(snapshot: Any, way: str) -> None:
    with pytest.raises(UsageError, match=r"the columns are 'topic' .give a list of names: \['topic'\]"):
        getattr(snapshot.scan(), way)("topic")


def test_others_read_a_scan_as_it_is(snapshot: Any) -> None:
    scan = snapshot.scan(limit=7)
    assert len(pl.DataFrame(scan)) == 7
    with duckdb.connect() as connection:
        assert connection.execute("SELECT count(*), count(DISTINCT topic) >= 1 FROM scan").fetchall() == [(7, True)]
    topic = next(iter(snapshot.topics()))
    one = snapshot.scan(topic=topic)
    assert set(pl.DataFrame(one)["topic"]) == {topic}


WAYS: tuple[Callable[[Any], Any], ...] = (
    pa.table,
    lambda scan: scan.to_arrow().read_all(),
    lambda scan: scan.to_pandas(),
    lambda scan: scan.to_polars(),
    lambda scan: scan.to_dataset().to_table(),
    lambda scan: scan.to_lazy_polars().collect(),
)


def test_what_could_not_be_read_is_a_warning(golden_store: Any, golden_log_copy: Any, tmp_path: Path) -> None:
    log = golden_log_copy("tiny-broker") / "orders-0"
    file = sorted(log.glob("*.log"))[0]
    _flip(file, file.stat().st_size // 2)
    store = tmp_path / "store"
    shutil.copytree(golden_store("tiny-5.5.0"), store)
    file = sorted((store / "commitlog").iterdir())[0]
    with logdex.open(store) as opened:
        at = opened.scan(limit=9).to_arrow().read_all().column("physical_offset")[8].as_py()
    _flip(file, at + 4)  # in the magic code
    for path in (log, store):
        with logdex.open(path) as opened:
            scan = opened.scan()
            count = sum(1 for _ in scan)
            assert count > 0
            assert scan.losses
            for read in WAYS:
                with pytest.warns(IncompleteReadWarning, match=str(path)):
                    assert len(read(opened.scan())) == count
            with pytest.warns(IncompleteReadWarning, match=str(path)) as told:
                assert len(list(opened)) == count
            assert {each.filename for each in told} == {__file__}


def _flip(file: Path, position: int) -> None:
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)
