"""Staging: nothing half-published, what stood there is kept, leftovers are swept, one run at a time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.io.staging import LOCK_NAME, PREFIX, Staging


def make(staging: Staging, name: str, text: str) -> None:
    folder = Path(staging.directory) / name
    folder.mkdir()
    (folder / "file").write_text(text)


def test_publish_moves_names_into_place_and_cleans_up(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with Staging(Env(), str(output), sync=True) as staging:
        make(staging, "index", "new")
        assert not (output / "index").exists()
        assert staging.publish(["index"]) == {}
    assert [path.name for path in output.iterdir()] == ["index"]
    assert (output / "index" / "file").read_text() == "new"


def test_what_stood_there_is_kept_under_a_dated_name(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        with Staging(Env(), str(tmp_path), sync=False) as staging:
            make(staging, "index", text)
            kept = staging.publish(["index"])
    assert (tmp_path / "index" / "file").read_text() == "third"
    assert Path(kept["index"], "file").read_text() == "second"
    texts = {(folder / "file").read_text() for folder in tmp_path.iterdir()}
    assert texts == {"first", "second", "third"}


def test_an_error_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Staging(Env(), str(tmp_path), sync=False) as staging:
        make(staging, "index", str(1 / 0))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_run_are_swept(tmp_path: Path) -> None:
    left = tmp_path / f"{PREFIX}dead"
    left.mkdir()
    (left / "file").write_text("stale")
    (tmp_path / LOCK_NAME).touch()
    with Staging(Env(), str(tmp_path), sync=False):
        assert not left.exists()


def test_two_runs_on_one_output(tmp_path: Path) -> None:
    script = (
        "import sys; from logdex.io.env import Env; from logdex.io.staging import Staging\n"
        f"Staging(Env(), {str(tmp_path)!r}, sync=False); print('in'); sys.stdout.flush(); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"in\n"
        with pytest.raises(UsageError, match="another run"):
            Staging(Env(), str(tmp_path), sync=False)
        other.kill()
    with Staging(Env(), str(tmp_path), sync=False):
        assert len(os.listdir(tmp_path)) == 2


def test_two_runs_in_one_process(tmp_path: Path) -> None:
    with Staging(Env(), str(tmp_path), sync=False) as first:
        with pytest.raises(UsageError, match="another run"):
            Staging(Env(), str(tmp_path), sync=False)
        assert Path(first.directory).is_dir()
