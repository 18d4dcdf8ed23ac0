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
    pq.write_table(pa.table({"topic": ["orders"] * 3, "value": ["a", "b", "c"]}), tmp_path / "orders.parquet")
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
