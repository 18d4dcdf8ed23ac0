"""Env: located refusals, counted bytes, space checked, one writer a lock."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from logdex.errors import EnvironmentProblem, StorageError, UnreadableError, UnusableFileError, VanishedError
from logdex.io import writeback
from logdex.io.env import Env, WriteFile
from logdex.io.name_changes import STAGING_PREFIX
from logdex.io.read_runs import read_runs
from logdex.testing import Fault, FaultEnv


def test_reads_and_maps_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    env = Env()
    with env.open_read(str(path)) as file:
        assert (file.size_bytes, file.read_at(2, 3), file.read_at(8, 100)) == (10, b"234", b"89")
    assert (env.counters.read_bytes, env.counters.mapped_bytes) == (5, 0)
    with env.map_read(str(path)) as mapped:
        assert mapped.array.tobytes() == b"0123456789"
        assert not mapped.array.flags.writeable
    assert env.counters.mapped_bytes == 10


def test_an_empty_file_maps_to_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with Env().map_read(str(tmp_path / "empty")) as mapped:
        assert mapped.array.size == 0


@pytest.mark.parametrize("name", ["missing", "folder", "nul\0nul"])
def test_refusals_name_the_path(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    path = str(tmp_path / name)
    with pytest.raises(StorageError) as caught:
        Env().open_read(path)
    assert caught.value.path == path
    assert caught.value.message.startswith(path)


_ASK_A_FIFO = """
from logdex.errors import StorageError
from logdex.io.env import Env
for act in ("open_read", "open_write", "lock_file", "sync_dir", "make_dirs", "make_dirs_durably"):
    try:
        getattr(Env(), act)("fifo")
    except StorageError as error:
        print(error.message)
"""


def test_a_fifo_is_neither_file_nor_directory_and_nothing_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    script = [sys.executable, "-c", _ASK_A_FIFO]
    done = subprocess.run(script, capture_output=True, text=True, timeout=20, check=False, cwd=tmp_path)
    no_file, no_directory = "fifo: a FIFO, not a regular file", "fifo: not a directory"
    assert done.stdout.splitlines() == [no_file] * 3 + [no_directory] * 3, done


def test_a_staging_folder_is_not_created_as_a_parent(tmp_path: Path) -> None:
    """A worker of a killed run does not bring back what the next run has removed."""
    staging = tmp_path / "out" / f"{STAGING_PREFIX}1"
    Env().make_dirs(str(staging))
    Env().make_dirs(f"{staging}/tasks/1/orders")
    Env().make_dirs(f"{staging}/tasks/1/orders")
    Env().remove_tree(str(staging))
    for path in (f"{staging}/tasks", f"{staging}/tasks/2"):
        with pytest.raises(VanishedError):
            Env().make_dirs(path)
    (tmp_path / f"{STAGING_PREFIX}2").mkdir()
    (tmp_path / f"{STAGING_PREFIX}2" / "file").touch()
    with pytest.raises(StorageError, match="not a directory"):
        Env().make_dirs(f"{tmp_path}/{STAGING_PREFIX}2/file/more")
    assert [path.name for path in (tmp_path / "out").iterdir()] == []


def test_a_rename_onto_a_directory_names_the_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(UnusableFileError, match="a directory, not a regular file") as caught:
        Env().rename(str(tmp_path / "file"), str(tmp_path / "folder"))
    assert caught.value.path == str(tmp_path / "folder")


def test_written_bytes_and_sizes(tmp_path: Path) -> None:
    env, path = Env(), str(tmp_path / "file")
    with env.open_write(path, exclusive=True) as file:
        file.truncate(100)
        file.reserve(0, 100)
        file.write_at(10, np.arange(5, dtype=np.uint8))
        file.write_at(20, b"xyz")
        file.sync()
        with file.map(100) as mapped:
            mapped.array[0] = 7
            mapped.flush()
    data = Path(path).read_bytes()
    assert (len(data), data[0], data[10:15], data[20:23]) == (100, 7, bytes(range(5)), b"xyz")
    assert env.counters.written_bytes == 8
    with pytest.raises(StorageError):
        env.open_write(path, exclusive=True)


def test_free_space_is_asked_for_where_the_path_will_be(tmp_path: Path) -> None:
    env, target = Env(), str(tmp_path / "not" / "there" / "yet")
    env.require_free(target, 1)
    with pytest.raises(EnvironmentProblem, match="choose another --output"):
        env.require_free(target, 1 << 62)


def test_a_lock_is_held_against_other_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    held = Env().lock_file(path)
    assert held is not None
    script = f"from logdex.io.env import Env; print(Env().lock_file({path!r}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "None\n"
    held.close()
    again = Env().lock_file(path)
    assert again is not None
    again.close()


def test_read_file_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(11))
    assert Env().read_file(str(tmp_path / "big"), 11) == bytes(11)
    with pytest.raises(StorageError, match="at most 10"):
        Env().read_file(str(tmp_path / "big"), 10)


def test_a_lock_on_a_file_that_its_holder_removed_counts_for_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")

    class Late(Env):
        """Opens the lock file just before its holder removes and closes it."""

        def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
            file = super().open_write(path, exclusive=exclusive)
            if held:
                Path(path).unlink()
                held.pop().close()
            return file

    first = Env().lock_file(path)
    assert first is not None
    held = [first]
    second = Late().lock_file(path)
    assert second is not None
    assert Env().lock_file(path) is None
    second.close()


def test_what_the_system_does_not_say_is_no_absence(tmp_path: Path) -> None:
    for ask in (Env().exists, Env().is_dir, Env().is_file):
        assert not ask(str(tmp_path / ("x" * 300)))
        assert not ask(str(tmp_path / "a\0b"))
        env = FaultEnv(str(tmp_path), Fault(1, errno.EACCES))
        with pytest.raises(StorageError, match="permission denied"):
            getattr(env, ask.__name__)(str(tmp_path))


def test_begin_writeback_changes_nothing_and_waits_for_nothing(tmp_path: Path) -> None:
    path = f"{tmp_path}/file"
    with Env().open_write(path) as file:
        file.truncate(3 << 16)
        file.write_at(1 << 16, b"written")
        file.begin_writeback(1 << 16, 1 << 16)
        file.begin_writeback()
        file.write_at((1 << 16) + 7, b" again")
        file.begin_writeback()
        file.sync()
    assert Path(path).read_bytes() == (bytes(1 << 16) + b"written again").ljust(3 << 16, b"\0")


def test_begin_writeback_does_nothing_where_the_system_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writeback, "_sync_file_range", lambda: None)
    with Env().open_write(f"{tmp_path}/file") as file:
        file.write_at(0, b"written")
        file.begin_writeback()
    assert (tmp_path / "file").read_bytes() == b"written"


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_refused_read_says_where(tmp_path: Path, code: int) -> None:
    """A sector that the disk cannot read is located; any other error is raised as it is, and is not
    its own cause."""
    path = tmp_path / "file"
    path.write_bytes(bytes(100))
    env = FaultEnv(str(tmp_path), Fault(1, code, kinds=frozenset({"read_at"}), lasting=True))
    with env.open_read(str(path)) as file:
        for read in (lambda: file.read_at(20, 30), lambda: read_runs(file, [(20, 30, 0)], np.empty(30, np.uint8))):
            with pytest.raises(StorageError) as caught:
                read()
            error = caught.value
            assert (error.path, error.errno) == (str(path), code)
            assert error.__cause__ is not error
            assert isinstance(error, UnreadableError) == (code == errno.EIO)
            if isinstance(error, UnreadableError):
                assert (error.position, error.end_position) == (20, 50)


def test_tasks_of_other_processes_get_an_env() -> None:
    env = pickle.loads(pickle.dumps(Env(check_space=False, storage={"anon": True})))
    assert env.free_bytes("/") == Env(check_space=False).free_bytes("/")
    assert env._remote.storage == {"anon": True}


def test_where_the_data_of_a_sparse_file_ends(tmp_path: Path) -> None:
    path, page = tmp_path / "sparse", 1 << 16
    with path.open("wb") as file:
        file.truncate(64 * page)
    with Env().open_read(str(path)) as opened:
        empty_end = opened.data_end(0)
    with path.open("r+b") as file:
        for place in (0, 3, 9):
            os.pwrite(file.fileno(), b"x", place * page)
    with Env().open_read(str(path)) as opened:
        ends = [opened.data_end(at * page) for at in (0, 1, 4, 9, 10, 64)]
        assert opened.next_data(64 * page) is None
    assert all(end >= 9 * page + 1 for end in ends[:4])  # a file system that knows no holes says the size
    if empty_end == 0:
        assert all(end <= 10 * page for end in ends[:5])
    assert ends[5] == 64 * page
