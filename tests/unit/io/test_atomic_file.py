"""A file that is replaced as a whole: the old contents or the new ones, whatever the system refuses
or a power cut takes."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.errors import StorageError, UnusableFileError
from logdex.io.atomic_file import TEMPORARY_SUFFIX, write_atomically
from logdex.io.env import Env
from logdex.testing import Fault, FaultEnv, Killed

OLD, NEW = b"old contents", b"the new contents, which are longer"


@pytest.fixture(params=[OLD, None], ids=["replaced", "new"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    if request.param is not None:
        (folder / "file").write_bytes(request.param)
    return folder / "file"


def contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def operations(path: Path) -> int:
    env = FaultEnv(str(path.parent))
    before = contents(path)
    write_atomically(str(path), NEW, env=env)
    assert path.read_bytes() == NEW
    assert os.listdir(path.parent) == ["file"]
    path.unlink()
    if before is not None:
        path.write_bytes(before)
    return len(env.log)


def test_what_is_refused_leaves_the_old_file_or_the_new_one_and_nothing_beside_it(path: Path) -> None:
    before = contents(path)
    for at in range(1, operations(path) + 1):
        for code in (errno.EIO, errno.ENOSPC, errno.EACCES):
            env = FaultEnv(str(path.parent), Fault(at, code))
            with pytest.raises(StorageError):
                write_atomically(str(path), NEW, env=env)
            assert contents(path) in (before, NEW)
            assert set(os.listdir(path.parent)) <= {"file"}
            assert env.open_paths == []
            path.unlink(missing_ok=True)
            if before is not None:
                path.write_bytes(before)


def test_a_kill_leaves_the_old_file_or_the_new_one_and_the_next_write_succeeds(path: Path) -> None:
    before = contents(path)
    for at in range(1, operations(path) + 1):
        env = FaultEnv(str(path.parent), Fault(at))
        with pytest.raises(Killed):
            write_atomically(str(path), NEW, env=env)
        env.release()
        assert contents(path) in (before, NEW)
        write_atomically(str(path), b"again", env=Env())
        assert path.read_bytes() == b"again"
        assert os.listdir(path.parent) == ["file"]
        path.unlink()
        if before is not None:
            path.write_bytes(before)


def test_a_power_cut_leaves_the_old_file_or_the_new_one(path: Path, tmp_path: Path) -> None:
    before, seen = contents(path), set()
    for at in range(1, operations(path) + 1):
        for seed in range(20):
            env = FaultEnv(str(path.parent), Fault(at))
            with pytest.raises(Killed):
                write_atomically(str(path), NEW, env=env)
            env.release()
            left = tmp_path / f"left-{at}-{seed}"
            env.survivor(str(left), seed)
            seen.add(contents(left / "file"))
            for name in os.listdir(path.parent):
                (path.parent / name).unlink()
            if before is not None:
                path.write_bytes(before)
    assert seen <= {before, NEW}
    assert len(seen) == 2


def test_what_was_written_outlives_a_power_cut(path: Path, tmp_path: Path) -> None:
    env = FaultEnv(str(path.parent))
    write_atomically(str(path), NEW, env=env)
    for seed in range(20):
        env.survivor(str(tmp_path / str(seed)), seed)
        assert (tmp_path / str(seed) / "file").read_bytes() == NEW


def test_what_a_killed_write_left_beside_it_does_not_show(path: Path) -> None:
    Path(f"{path}{TEMPORARY_SUFFIX}").write_bytes(b"x" * 100)
    write_atomically(str(path), NEW)
    assert path.read_bytes() == NEW
    assert os.listdir(path.parent) == ["file"]


def test_a_name_without_a_folder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    write_atomically("file", NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir], ids=["a FIFO", "a directory"])
def test_what_is_no_file_becomes_no_backup(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "file")
    (tmp_path / "file.bak").write_bytes(OLD)
    with pytest.raises(UnusableFileError, match=r"/file: a .*, not a regular file"):
        write_atomically(str(tmp_path / "file"), NEW, backup=str(tmp_path / "file.bak"))
    assert (tmp_path / "file.bak").read_bytes() == OLD
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "file.bak"]
