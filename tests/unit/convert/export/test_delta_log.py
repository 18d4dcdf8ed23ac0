"""An export that is a Delta table, read back by deltalake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from logdex.convert.export import export
from logdex.convert.load import load
from logdex.errors import UsageError
from tests.directories import contents
from tests.unit.convert.export.lakes import exported, order, plain
from tests.unit.convert.export.test_job import partition, store

APPLICATION = "logdex export"


def delta_rows(lake: Path) -> list[dict[str, Any]]:
    """The rows of the table, with the days as text."""
    rows = plain(DeltaTable(str(lake)).to_pyarrow_table())
    return sorted(({**row, "day": row["day"] and row["day"].isoformat()} for row in rows), key=order)


@pytest.mark.parametrize("format_name", ["rocketmq", "kafka"])
def test_the_table_has_the_rows_and_types_of_the_files(format_name: str, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    source = store(tmp_path / "log") if format_name == "rocketmq" else partition(tmp_path / "log", 0, 40)
    report = export(source, lake, table_format="delta", sync=False)
    table = DeltaTable(str(lake))
    assert (table.version(), table.transaction_version(APPLICATION), report.messages) == (0, 1, 40)
    assert table.metadata().partition_columns == ["topic", "day"]
    assert delta_rows(lake) == exported(lake)
    assert load(str(lake), str(tmp_path / "back"), format_name, sync=False).messages == 40


def test_each_run_adds_its_files(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for run, more in enumerate((3, 4, 2)):
        source = partition(tmp_path / "logs", len(exported(lake)), more)
        export(source, lake, table_format="delta" if run == 0 else None, sync=False)
        assert DeltaTable(str(lake)).version() == run
        assert delta_rows(lake) == exported(lake)
    assert len(delta_rows(lake)) == 9
    before = contents(lake)
    assert export(source, lake, table_format="delta", sync=False).run == 0
    assert contents(lake) == before


@pytest.mark.parametrize("more", [0, 2])
def test_an_export_becomes_a_table_with_all_that_is_in_it(tmp_path: Path, more: int) -> None:
    lake = tmp_path / "lake"
    for first in (0, 3):
        export(partition(tmp_path / "logs", first, 3), lake, sync=False)
    source = partition(tmp_path / "logs", 6, more)
    assert export(source, lake, table_format="delta", sync=False).run == 3
    table = DeltaTable(str(lake))
    assert (table.version(), table.transaction_version(APPLICATION)) == (0, 3)
    assert delta_rows(lake) == exported(lake)
    assert len(delta_rows(lake)) == 6 + more


def test_a_run_after_what_another_wrote_to_the_table(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for first in (0, 2):
        export(partition(tmp_path / "logs", first, 2), lake, table_format="delta", sync=False)
    rows = delta_rows(lake)
    table = DeltaTable(str(lake))
    table.create_checkpoint()
    table.optimize.compact()
    export(partition(tmp_path / "logs", 4, 2), lake, sync=False)
    assert delta_rows(lake)[:4] == rows
    assert len(delta_rows(lake)) == 6
    assert DeltaTable(str(lake)).transaction_version(APPLICATION) == 3


def test_refused_tables(tmp_path: Path) -> None:
    source, foreign = partition(tmp_path / "logs", 0, 2), tmp_path / "foreign"
    write_deltalake(str(foreign), pa.table({"number": [1]}).slice(0, 0))
    before = contents(foreign)
    with pytest.raises(UsageError, match="is a Delta table that no export has written"):
        export(source, foreign, table_format="delta", sync=False)
    assert contents(foreign) == before
    with pytest.raises(UsageError, match="the table format 'iceberg' is unknown"):
        export(source, tmp_path / "lake", table_format="iceberg")
