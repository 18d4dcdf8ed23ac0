"""`logdex dispatch`: what it prints, where it goes on, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from tests.cli.helpers import run, run_json
from tests.unit.rocketmq.dispatch.growing import SIZES, grow, require_rebuilt

FLAGS = [part for name, size in SIZES.items() for part in ("--" + name.replace("_", "-"), str(size))]


def test_dispatch(tmp_path: Path) -> None:
    store, output = tmp_path / "store", tmp_path / "out"
    grow(store, 30, 0)
    done = run("dispatch", store, "--output", output, *FLAGS)
    assert done.exit_code == 0, done
    assert done.stdout.startswith("Dispatched 30 messages, ")
    grow(store, 10, 1)
    [report] = run_json("dispatch", store, "--output", output, *FLAGS)
    assert (report["messages"], report["engine"], report["lossy"]) == (10, "local", False)
    require_rebuilt(store, output, tmp_path / "rebuilt")


def test_a_lake(tmp_path: Path) -> None:
    store, output, lake = tmp_path / "store", tmp_path / "out", tmp_path / "lake"
    grow(store, 30, 0)
    done = run("dispatch", store, "--output", output, "--lake", lake, *FLAGS)
    assert done.exit_code == 0, done
    assert f"Exported 30 messages in 2 files to {lake}" in done.stdout
    [report] = run_json("dispatch", store, "--output", output, "--lake", lake, *FLAGS)
    assert (report["messages"], report["lake_messages"], report["lake_files"]) == (0, 0, 0)
