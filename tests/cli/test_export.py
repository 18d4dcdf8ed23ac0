"""`logdex export`: what it says of losses, and of an output that holds another log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.testing.store_builder import write_commit_log
from tests.cli.helpers import run
from tests.unit.rocketmq.small_stores import FILE_SIZE, START_MS, message

OPTIONS = ("--mapped-file-size-commit-log", FILE_SIZE, "--rocketmq-version", "5.5.0", "--no-sync")


def write(root: Path, count: int, **changes: Any) -> Path:
    write_commit_log(str(root), [message(number, **changes) for number in range(count)], FILE_SIZE)
    return root


def test_files_that_were_removed_are_no_damage(tmp_path: Path) -> None:
    """`verify`, which finds nothing in such a store, is not what to type next."""
    lake = tmp_path / "lake"
    assert run("export", write(tmp_path / "store", 5), "-o", lake, *OPTIONS).exit_code == 0
    store = write(tmp_path / "store", 40)
    min((store / "commitlog").iterdir()).unlink()
    result = run("export", store, "-o", lake, *OPTIONS)
    assert result.exit_code == 3
    assert f"to {FILE_SIZE} were removed before they were read" in result.stderr
    assert "verify" not in result.stderr


def test_damage_is_listed_by_verify(tmp_path: Path) -> None:
    store = write(tmp_path / "store", 40)
    file = min((store / "commitlog").iterdir())
    file.write_bytes(file.read_bytes().replace(b"body 3", b"bodY 3", 1))
    result = run("export", store, "-o", tmp_path / "lake", *OPTIONS)
    assert result.exit_code == 3
    assert f"logdex verify {store} lists all damage" in result.stderr


def test_what_earlier_runs_lost_is_told_again(tmp_path: Path) -> None:
    """A later run does not read there again, so it has no losses of its own."""
    store, lake = write(tmp_path / "store", 40), tmp_path / "lake"
    file = min((store / "commitlog").iterdir())
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"body 3", b"bodY 3", 1))
    first = run("export", store, "-o", lake, *OPTIONS)
    assert (first.exit_code, "of this export could not" in first.stderr) == (3, False)
    again = run("export", store, "-o", lake, *OPTIONS)
    told = f"run 1 of this export could not read parts of the log, which no later run reads again: {lake}/_logdex/"
    assert (again.exit_code, again.stdout) == (0, f"Nothing new for {lake}\n")
    assert told in again.stderr
    write(store, 60)
    file.write_bytes(whole)
    assert run("export", store, "-o", lake, *OPTIONS).exit_code == 0
    last = run("export", store, "-o", lake, "--json", *OPTIONS)
    assert f"{told}000001.json lists them" in last.stderr, "run 2 lost nothing"


def test_a_file_that_is_missing_is_told_by_the_run_that_comes_to_it(tmp_path: Path) -> None:
    store, lake = write(tmp_path / "store", 80), tmp_path / "lake"
    _, second, third, *_ = sorted((store / "commitlog").iterdir())
    second.unlink()
    assert run("export", store, "-o", lake, *OPTIONS).exit_code == 3
    third.unlink()
    again = run("export", store, "-o", lake, *OPTIONS)
    assert (again.exit_code, again.stdout) == (0, f"Nothing new for {lake}\n"), "the third file is in the lake"
    assert "run 1 of this export could not read parts of the log" in again.stderr
    assert "the file is missing" not in again.stderr
    sorted((write(store, 140) / "commitlog").iterdir())[-2].unlink()
    assert run("export", store, "-o", lake, *OPTIONS).exit_code == 3


def test_another_store_is_refused(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run("export", write(tmp_path / "one", 5), "-o", lake, *OPTIONS)
    result = run("export", write(tmp_path / "other", 9, store_timestamp_ms=START_MS - 1), "-o", lake, *OPTIONS)
    assert result.exit_code == 2
    assert "is another log than the one in this lake" in result.stderr
    assert "choose another --output" in result.stderr
