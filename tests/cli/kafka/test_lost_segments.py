"""A segment of which only the indexes are left: every command that reads its log says so. So do
those that miss a partition."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.helpers import run
from tests.golden import kafka as golden_kafka
from tests.unit.kafka.verify.log_harm import PARTITION, SECOND, make_log_dir

LOST = "offsets 10 to 19 are lost"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_log_dir(tmp_path)
    (root / f"{SECOND}.log").unlink()
    return root


@pytest.mark.parametrize(
    ("exit_code", "command"),
    [
        (1, ["info"]),
        (1, ["cat"]),
        (1, ["cat", "--tail", "15"]),
        (0, ["cat", "--topic", "events", "--partition", "0", "--offset", "20"]),
        (1, ["get", "--offset", "5", "--count", "9"]),
        (1, ["query", "--topic", "events", "--key", "key"]),
        (1, ["sql"]),
        (1, ["stats"]),
        (3, ["export", "--output", "OUT"]),
        (3, ["convert", "--to", "rocketmq", "--output", "OUT"]),
        (3, ["filter", "--topic", "events", "--output", "OUT"]),
        (3, ["rebuild", "--output", "OUT"]),
        (3, ["rebuild", "--in-place"]),
        (3, ["recover", "--output", "OUT"]),
    ],
)
def test_exit_codes(exit_code: int, command: list[str], root: Path, tmp_path: Path) -> None:
    name, *options = (str(tmp_path / "out") if each == "OUT" else each for each in command)
    options += ["SELECT count(*) FROM records"] if name == "sql" else []
    path = root / PARTITION if name == "get" else root
    done = run(name, path, *options)
    assert done.exit_code == exit_code, done
    assert (LOST in done.stdout + done.stderr) is (exit_code > 0), done


def test_partitions_that_are_missing_are_named(tmp_path: Path) -> None:
    root = golden_kafka.unpack("tiny-broker", tmp_path / "logs")
    offsets = next(path for path in sorted(root.glob("__consumer_offsets-*")))
    told = run("offsets", root)
    assert (told.exit_code, "groups may be missing" in told.stderr) == (0, False)
    shutil.rmtree(offsets)
    shutil.move(root / "orders-0", root / "orders-0.0123456789abcdef0123456789abcdef-delete")
    told = run("offsets", root)
    assert (told.exit_code, f"it names {offsets.name}, which is not here: groups may be missing" in told.stderr) == (
        0,
        True,
    )
    done = run("recover", root, "--output", tmp_path / "out")
    assert done.exit_code == 0, done
    assert f"name 1 partition that is not here, and not taken over: {offsets.name}\n" in done.stderr
