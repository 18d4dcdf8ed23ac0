"""`logdex dispatch` of Kafka's logs: what it prints, where it goes on, and what it refuses."""

from __future__ import annotations

from pathlib import Path

from tests.cli.helpers import run, run_json
from tests.unit.kafka.dispatch.growing import INTERVAL, grow, require_rebuilt

FLAGS = ["--index-interval-bytes", INTERVAL]


def test_dispatch(tmp_path: Path) -> None:
    logs, output, lake = tmp_path / "logs", tmp_path / "out", tmp_path / "lake"
    grow(logs / "a-0", 10, 0)
    done = run("dispatch", logs, "--output", output, *FLAGS)
    assert done.exit_code == 0, done
    assert ": 1 partition, " in done.stdout
    grow(logs / "a-0", 5, 1)
    [report] = run_json("dispatch", logs, "--output", output, "--lake", lake, *FLAGS)
    assert (report["engine"], report["partitions"], report["lossy"]) == ("local", 1, False)
    assert report["lake_messages"] > report["messages"] > 0
    require_rebuilt(logs, output, tmp_path / "rebuilt")


def test_what_cannot_run(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    grow(logs / "a-0", 10, 0)
    done = run("dispatch", logs, "--output", tmp_path / "out", "--time-zone", "UTC")
    assert done.exit_code == 2
    assert "--time-zone is a flag of RocketMQ's" in done.stderr
    done = run("dispatch", next((logs / "a-0").glob("*.log")), "--output", tmp_path / "out")
    assert done.exit_code == 2
    assert "whole partitions" in done.stderr
