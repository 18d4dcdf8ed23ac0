"""Staging: nothing half-published, what stood there is kept, leftovers are swept, one run at a time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from logdex.errors import StorageError, UsageError
from logdex.io.env import Env
from logdex.jobs.staging import LOCK_NAME, PREFIX, Staging, remove_tree_in_use
from logdex.testing import Fault, FaultEnv


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
        "import sys; from logdex.io.env import Env; from logdex.jobs.staging import Staging\n"
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


def test_names_in_folders_and_what_goes_without_a_successor(tmp_path: Path) -> None:
    output = tmp_path / "out"
    for name in ("a", "b"):
        (output / name).mkdir(parents=True)
        (output / name / "one").write_text(f"old {name}")
    (output / "a" / "gone").write_text("stale")
    with Staging(Env(), str(output), sync=True, home=str(output / "a")) as staging:
        assert (output / "a" / LOCK_NAME).exists()
        for name in ("a", "b"):
            Path(staging.directory, name).mkdir()
            Path(staging.directory, name, "one").write_text(f"new {name}")
        assert Path(staging.directory).parent == output / "a"
        kept = staging.publish(["a/one", "b/one"], stale=["a/gone", "a/never"])
    assert sorted(kept) == ["a/gone", "a/one", "b/one"]
    assert {name: Path(where).read_text() for name, where in kept.items()} == {
        "a/gone": "stale",
        "a/one": "old a",
        "b/one": "old b",
    }
    assert sorted(path.name.partition(".")[0] for path in (output / "a").iterdir()) == ["gone", "one", "one"]
    assert [(output / name / "one").read_text() for name in ("a", "b")] == ["new a", "new b"]
    assert sorted(path.name for path in output.iterdir()) == ["a", "b"]


def test_an_error_brings_back_what_went_without_a_successor(tmp_path: Path) -> None:
    output = tmp_path / "out"
    (output / "a").mkdir(parents=True)
    (output / "a" / "gone").write_text("stale")
    env = FaultEnv(str(tmp_path), Fault(2, errno.EIO, frozenset({"sync_dir"})))
    with Staging(env, str(output), sync=True) as staging, pytest.raises(StorageError):
        staging.publish([], stale=["a/gone"])
    assert [path.name for path in sorted(output.rglob("*"))] == ["a", "gone"]


class _BusyEnv(Env):
    """A folder is changed by another process the first `times` times that it is to be removed."""

    def __init__(self, times: int, number: int) -> None:
        super().__init__()
        self.times, self.number = times, number

    def remove_tree(self, path: str) -> None:
        if self.times:
            self.times -= 1
            raise StorageError("changed", path=path, errno=self.number)
        super().remove_tree(path)


@pytest.mark.parametrize("number", [errno.ENOTEMPTY, errno.ENOENT])
def test_a_killed_runs_workers_may_still_write_where_the_next_run_cleans_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    left = tmp_path / f"{PREFIX}left"
    left.mkdir()
    with Staging(_BusyEnv(3, number), str(tmp_path), sync=False):
        assert not left.exists()
    assert len(waits) == 3


def test_a_folder_that_never_gets_empty_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    with pytest.raises(StorageError, match="changed"):
        remove_tree_in_use(str(tmp_path), _BusyEnv(100, errno.ENOTEMPTY))
    assert 5 < sum(waits) < 10
    with pytest.raises(StorageError, match="changed"):
        remove_tree_in_use(str(tmp_path), _BusyEnv(1, errno.EACCES))
