"""Staging: nothing half-published, what stood there is kept, leftovers are swept, one run at a
time."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from logdex.errors import StorageError, UsageError
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.journal import LOCK_NAME
from logdex.jobs.publication import Names
from logdex.jobs.staging import Staging, remove_tree_in_use
from logdex.testing import Fault, FaultEnv, Killed


def make(staging: Staging, name: str, text: str) -> None:
    folder = Path(staging.directory) / name
    folder.mkdir()
    (folder / "file").write_text(text)


def test_publish_moves_names_into_place_and_cleans_up(tmp_path: Path) -> None:
    output = tmp_path / "out"
    with Staging(Env(), str(output), sync=True) as staging:
        make(staging, "index", "new")
        assert not (output / "index").exists()
        assert staging.publish(Names(("index",))) == {}
    assert [path.name for path in output.iterdir()] == ["index"]
    assert (output / "index" / "file").read_text() == "new"


def test_what_stood_there_is_kept_under_a_dated_name(tmp_path: Path) -> None:
    for text in ("first", "second", "third"):
        with Staging(Env(), str(tmp_path), sync=False) as staging:
            make(staging, "index", text)
            kept = staging.publish(Names(("index",)))
    assert (tmp_path / "index" / "file").read_text() == "third"
    assert Path(kept["index"], "file").read_text() == "second"
    texts = {(folder / "file").read_text() for folder in tmp_path.iterdir()}
    assert texts == {"first", "second", "third"}


def test_an_error_publishes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Staging(Env(), str(tmp_path), sync=False) as staging:
        make(staging, "index", str(1 / 0))
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_killed_run_are_swept(tmp_path: Path) -> None:
    left = tmp_path / f"{STAGING_PREFIX}dead"
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
        assert (output / LOCK_NAME).exists()
        for name in ("a", "b"):
            Path(staging.directory, name).mkdir()
            Path(staging.directory, name, "one").write_text(f"new {name}")
        assert Path(staging.directory).parent == output / "a"
        kept = staging.publish(Names(("a/one", "b/one"), stale=("a/gone", "a/never")))
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
        staging.publish(Names(stale=("a/gone",)))
    assert [path.name for path in sorted(output.rglob("*"))] == ["a", "gone"]


class _OldDiskEnv(FaultEnv):
    """On a file system that has no second names for files and cannot exchange names."""

    def link(self, source: str, target: str) -> bool:
        return False

    def exchange(self, one: str, other: str) -> bool:
        return False


def _publish_an_index(output: Path, env: Env) -> dict[str, str]:
    with Staging(env, str(output), sync=True) as staging:
        for name in ("log", "index", "checkpoint"):
            Path(staging.directory, name).write_text(f"new {name}")
        return staging.publish(Names(("log", "index"), emptied=("index", "none"), later=("checkpoint",)))


def _start_with_an_index(output: Path) -> None:
    output.mkdir()
    for name in ("log", "index", "checkpoint"):
        (output / name).write_text(f"old {name}")


@pytest.mark.parametrize("env_of", [FaultEnv, _OldDiskEnv])
def test_an_emptied_file_says_nothing_of_another_one(env_of: type[FaultEnv], tmp_path: Path) -> None:
    output = tmp_path / "usual"
    _start_with_an_index(output)
    env = env_of(str(tmp_path))
    kept = _publish_an_index(output, env)
    assert {name: Path(where).read_text() for name, where in kept.items()} == {
        name: f"old {name}" for name in ("log", "index", "checkpoint")
    }
    texts = sorted(path.read_text() for path in output.iterdir())
    assert texts == [f"{age} {name}" for age in ("new", "old") for name in ("checkpoint", "index", "log")]
    seen = set()
    for at in [at for at, (kind, _) in enumerate(env.log, 1) if kind in ("link", "rename", "remove_tree")]:
        output = tmp_path / f"killed-{at}"
        _start_with_an_index(output)
        killed = env_of(str(tmp_path), Fault(at))
        with pytest.raises(Killed):
            _publish_an_index(output, killed)
        killed.release()
        found = [path.read_text()[:3] for path in map(output.joinpath, ("log", "index", "checkpoint")) if path.exists()]
        seen.add(tuple(found))
        with Staging(Env(), str(output), sync=False):  # undoes it, unless it was complete
            texts = sorted(path.read_text() for path in output.iterdir() if path.name != LOCK_NAME and path.is_file())
        assert texts == ["old checkpoint", "old index", "old log"] or len(texts) == 6, env.log[at - 1]
    whole = {found for found in seen if len(found) == 3}
    right = [("old", "old"), ("old", ""), ("new", ""), ("new", "new")]
    assert whole == {(*each, "old") for each in right} | {("new", "new", "new")}
    assert whole == seen or env_of is _OldDiskEnv


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
    left = tmp_path / f"{STAGING_PREFIX}left"
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


def test_a_staging_name_that_is_a_link_or_a_file_blocks_nothing(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("foreign")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / f"{STAGING_PREFIX}link").symlink_to(elsewhere)
    (tmp_path / "out" / f"{STAGING_PREFIX}file").write_text("left")
    for env in (Env(), FaultEnv(str(tmp_path))):
        with Staging(env, str(tmp_path / "out"), sync=False):
            pass
        assert os.listdir(tmp_path / "out") == []
        assert (elsewhere / "file").read_text() == "foreign"


def test_a_journal_is_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "foreign").write_text("foreign")
    (tmp_path / "out" / LOCK_NAME).symlink_to(tmp_path / "foreign")
    with Staging(Env(), str(tmp_path / "out"), sync=False):
        pass
    assert os.listdir(tmp_path / "out") == []
    assert (tmp_path / "foreign").read_text() == "foreign"


class _InterruptedEnv(Env):
    """A signal comes just after the change of names with that number, and perhaps after a later one
    too."""

    def __init__(self, *at: int) -> None:
        super().__init__()
        self.left = list(at)
        self.changes = 0

    def _changed(self) -> None:
        self.changes += 1
        if self.changes in self.left:
            raise KeyboardInterrupt

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._changed()

    def exchange(self, one: str, other: str) -> bool:
        done = super().exchange(one, other)
        self._changed()
        return done

    def link(self, source: str, target: str) -> bool:
        done = super().link(source, target)
        self._changed()
        return done


class _KilledEnv(_InterruptedEnv):
    """The process is dead after the change of names with that number."""

    is_dead = False

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if self.is_dead:
            raise Killed
        with super().operation(kind, path):
            yield

    def _changed(self) -> None:
        self.changes += 1
        if self.changes in self.left:
            self.is_dead = True
            raise Killed


def old_output(output: Path) -> dict[str, str]:
    """Two folders, two files and a mark, as `publish_all` replaces them."""
    for name in ("index", "queue"):
        (output / name).mkdir(parents=True)
        (output / name / "file").write_text("old")
    for name in ("one", "two", "stale", "mark"):
        (output / name).write_text("old")
    return texts(output)


def texts(output: Path) -> dict[str, str]:
    return {str(path.relative_to(output)): path.read_text() for path in output.rglob("*") if path.is_file()}


def publish_all(env: Env, output: Path) -> None:
    with Staging(env, str(output), sync=False, command="logdex job") as staging:
        for name in ("index", "queue", "fresh"):
            make(staging, name, "new content")
        for name in ("one", "two", "mark"):
            Path(staging.directory, name).write_text("new content")
        names = Names(("index", "one", "queue", "two", "fresh"), stale=("stale",), first=("mark",), last=("mark",))
        staging.publish(names)


def test_a_signal_just_after_a_change_of_names_undoes_it(tmp_path: Path) -> None:
    usual = _InterruptedEnv()
    old_output(tmp_path / "usual")
    publish_all(usual, tmp_path / "usual")
    assert usual.changes > 10
    for at in range(1, usual.changes + 1):
        old = old_output(tmp_path / str(at))
        with pytest.raises(KeyboardInterrupt):
            publish_all(_InterruptedEnv(at), tmp_path / str(at))
        assert texts(tmp_path / str(at)) == old


def test_a_second_signal_while_the_first_is_undone_leaves_it_to_the_next_run(tmp_path: Path) -> None:
    usual = _InterruptedEnv()
    old_output(tmp_path / "usual")
    publish_all(usual, tmp_path / "usual")
    for at in range(2, usual.changes + 1):
        output = tmp_path / str(at)
        old = old_output(output)
        with pytest.raises(KeyboardInterrupt):
            publish_all(_InterruptedEnv(at, at + 1), output)
        with Staging(Env(), str(output), sync=False) as staging:
            left = {
                name: text for name, text in texts(output).items() if not name.startswith((LOCK_NAME, STAGING_PREFIX))
            }
            assert left == old
            assert staging.notes in ([], ["logdex job was killed while it published: what it had published was undone"])
        assert texts(output) == old


def outputs_of_kills(tmp_path: Path) -> Iterator[Path]:
    """An output per change of a publication, killed at it: at least ten."""
    for at in range(1, 30):
        output = tmp_path / str(at)
        old_output(output)
        env = _KilledEnv(at)
        with suppress(Killed):
            publish_all(env, output)
        if not env.is_dead:
            break
        yield output
    assert at > 10


def test_what_was_changed_since_a_kill_stays(tmp_path: Path) -> None:
    """Somebody, such as a broker, has gone on with what a killed run left."""
    for output in outputs_of_kills(tmp_path):
        (output / "one").write_text(f"written by a broker: {(output / 'one').read_text()}")
        before = texts(output)
        with Staging(Env(), str(output), sync=False) as staging:
            (note,) = staging.notes
            assert "one was changed since" in note
        there = texts(output)
        assert set(before.values()) - {before[LOCK_NAME]} <= set(there.values())
        assert "written by a broker" in there["one"]
        assert list(there.values()).count("old") >= 4


@pytest.mark.parametrize("folder", ["index", "queue", "fresh"])
def test_what_was_changed_within_a_folder_since_a_kill_stays(tmp_path: Path, folder: str) -> None:
    """A broker that goes on writes into the files of a folder, and the folder's own time stays as
    it was."""
    for output in outputs_of_kills(tmp_path):
        if not (output / folder).exists():
            continue
        with (output / folder / "file").open("a") as file:
            file.write(", written by a broker")
        with Staging(Env(), str(output), sync=False) as staging:
            (note,) = staging.notes
            assert f"{folder} was changed since" in note
        assert "written by a broker" in (output / folder / "file").read_text()
