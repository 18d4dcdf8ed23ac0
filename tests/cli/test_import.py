"""`logdex import`: its examples, which need a Parquet file, and what it refuses."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.helpers import run, run_json
from tests.cli.test_help import examples


@pytest.mark.parametrize("example", examples("import"))
def test_examples_run(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"topic": ["orders"] * 3, "value": ["a", "b", "c"], "body": ["a", "b", "c"]}
    pq.write_table(pa.table(rows), tmp_path / "orders.parquet")
    monkeypatch.chdir(tmp_path)
    result = run(*shlex.split(example)[1:])
    assert result.exit_code == 0, result
    assert result.stdout


def test_what_is_said(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"topic": ["orders"] * 3, "value": ["a", "b", "c"], "x": [1, 2, 3]}), tmp_path / "o.parquet"
    )
    arguments = ("import", tmp_path / "o.parquet", "--output", tmp_path / "logs", "--format", "kafka")
    (report,) = run_json(*arguments)
    assert (report["messages"], report["files"], report["lossy"]) == (3, 1, False)
    again = run(*arguments)
    assert again.exit_code == 2
    assert "is not empty" in again.stderr


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    result = run("import", tmp_path / "none", "--output", tmp_path / "new", "--format", "kafka")
    assert result.exit_code == 2
    assert f"{tmp_path / 'none'}: there is no such file or directory" in result.stderr
    assert "give a Parquet file, or a folder with such files" in result.stderr


@pytest.mark.parametrize(("column", "other"), [("value", "rocketmq"), ("body", "kafka")])
def test_rows_of_the_other_format_are_refused(column: str, other: str, tmp_path: Path) -> None:
    """Of them nothing would be left."""
    pq.write_table(pa.table({"topic": ["orders"], column: ["a"]}), tmp_path / "o.parquet")
    result = run("import", tmp_path / "o.parquet", "--output", tmp_path / "new", "--format", other)
    assert result.exit_code == 2
    assert f"but a column {column}" in result.stderr
    assert not any((tmp_path / "new").iterdir())


def test_what_is_left_out_has_a_line_and_an_exit_code(tmp_path: Path) -> None:
    rows = {"topic": ["SCHEDULE_TOPIC_XXXX", "orders"], "body": ["delayed", "b"]}
    pq.write_table(pa.table(rows), tmp_path / "o.parquet")
    result = run("import", tmp_path / "o.parquet", "--output", tmp_path / "new", "--format", "rocketmq")
    assert result.exit_code == 3
    assert "not imported: 1 message of SCHEDULE_TOPIC_XXXX" in result.stderr
