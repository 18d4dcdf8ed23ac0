"""`logdex recover` of RocketMQ stores on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import run, run_json
from tests.directories import tree_hash
from tests.unit.rocketmq.small_stores import FILE_SIZE, MESSAGES, build

SIZES = ("--max-hash-slot-num", "7", "--max-index-num", "12")


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """A store with one damaged message."""
    root = build(tmp_path / "store", MESSAGES)
    path = root / "commitlog" / f"{FILE_SIZE:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:200] + b"\xff" * 40 + data[240:])
    return root


def test_a_damaged_store_is_recovered_and_verified(damaged: Path, tmp_path: Path) -> None:
    before = tree_hash(damaged)
    done = run("recover", damaged, "--output", tmp_path / "out", *SIZES)
    assert done.exit_code == 3, done
    assert "placeholder message of topic LOGDEX_LOST instead" in done.stdout
    assert f"{damaged}/commitlog/{FILE_SIZE:020d}: bytes " in done.stdout
    assert run("verify", tmp_path / "out").exit_code == 0
    assert tree_hash(damaged) == before
    again = run("recover", tmp_path / "out", "--output", tmp_path / "again", *SIZES)
    assert again.exit_code == 0
    assert "lost           nothing" in again.stdout


def test_json_ends_with_one_report(damaged: Path, tmp_path: Path) -> None:
    *skipped, report = run_json("recover", damaged, "--output", tmp_path / "out", *SIZES, exit_code=3)
    assert [(line["kind"], line["placeholders"], line["is_loss"]) for line in skipped] == [("skipped", 1, True)]
    (line,) = skipped
    assert line["physical_offset"] == FILE_SIZE + line["start"]
    assert report["skipped_bytes"] == line["end"] - line["start"]
    assert (report["engine"], report["tasks"], report["lossy"], report["placeholders"]) == ("local", 1, True, 1)


def test_in_place(damaged: Path) -> None:
    done = run("recover", damaged, "--in-place")
    assert done.exit_code == 3, done
    assert "commitlog is now" in done.stdout
    assert run("verify", damaged).exit_code == 0
    assert run("recover", damaged, "--in-place").exit_code == 0


def test_one_file(damaged: Path, tmp_path: Path) -> None:
    done = run("recover", damaged / "commitlog" / f"{FILE_SIZE:020d}", "--output", tmp_path / "out", *SIZES)
    assert done.exit_code == 3, done
    assert run("cat", tmp_path / "out", "--topic", "LOGDEX_LOST").stdout.count("LOGDEX_LOST") == 1


@pytest.mark.parametrize("size", [[], ["--mapped-file-size-commit-log", FILE_SIZE]], ids=["assumed", "stated"])
@pytest.mark.parametrize("left", [7, 50, 0])
def test_the_only_file_ends_inside_a_message(size: list[Any], left: int, damaged: Path, tmp_path: Path) -> None:
    """It shows no other size than that to which it was cut."""
    whole = damaged / "commitlog" / f"{0:020d}"
    at = run_json("cat", whole)[5]["physical_offset"]
    cut = tmp_path / "cut" / "commitlog" / whole.name
    cut.parent.mkdir(parents=True)
    cut.write_bytes(whole.read_bytes()[: at + left])
    done = run("recover", tmp_path / "cut", "--output", tmp_path / "out", *size, *SIZES)
    assert (done.exit_code, f"lost           {left} B\n" in done.stdout) == (3 if left or not size else 0, left > 0)
    assert (f"assumed mappedFileSizeCommitLog {at + left}: the only file is so long" in done.stderr) == (not size)


def test_what_cannot_be(damaged: Path, tmp_path: Path) -> None:
    assert run("recover", damaged).exit_code == 2
    assert "--output DIR, or --in-place" in run("recover", damaged).stderr
    assert run("recover", damaged, "--output", damaged / "o").exit_code == 2
    wrong = run("recover", damaged, "--output", tmp_path / "o", "--mapped-file-size-commit-log", "4096")
    assert wrong.exit_code == 2
    assert not (tmp_path / "o").exists()
