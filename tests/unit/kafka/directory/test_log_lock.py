"""The lock of a log directory: shared by the logs of one process, and by nobody while a job writes
in place."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import LogInUseError
from logdex.io.env import Env
from logdex.kafka.directory.log_lock import DirectoryLock, in_place_lock, lock_is_held
from logdex.kafka.log.log import Log
from tests.unit.io.locks import is_free_elsewhere


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (tmp_path / ".lock").touch()
    return tmp_path


def test_logs_share_it_whatever_the_path(root: Path) -> None:
    (root.parent / "link").symlink_to(root)
    try:
        with Log.open(str(root / "a-0")), Log.open(str(root.parent / "link" / "b-0")):
            with pytest.raises(LogInUseError, match="in this process"):
                Log.open(str(root.parent / "link" / "a-0"))
            with pytest.raises(LogInUseError, match="in this process"):
                DirectoryLock(str(root), env=Env(), exclusive=True)
            assert lock_is_held(str(root.parent / "link"), env=Env())
        assert is_free_elsewhere(root / ".lock")
    finally:
        (root.parent / "link").unlink()


@pytest.mark.parametrize("is_log_last", [True, False])
def test_the_last_holder_restores_the_clean_mark(root: Path, is_log_last: bool) -> None:
    mark = root / ".kafka_cleanshutdown"
    mark.write_bytes(b"of the broker")
    lock, log = DirectoryLock(str(root), env=Env()), Log.open(str(root / "a-0"))
    first, last = (lock.release, log.close) if is_log_last else (log.close, lock.release)
    first()
    assert not mark.exists()
    last()
    assert mark.read_bytes() == b"of the broker"


def test_no_log_is_opened_where_a_job_writes_in_place(root: Path) -> None:
    with in_place_lock(str(root), env=Env()), pytest.raises(LogInUseError, match="in this process"):
        Log.open(str(root / "a-0"))
    Log.open(str(root / "a-0")).close()


def test_reading_the_lock_file_does_not_give_the_lock_up(root: Path) -> None:
    with Log.open(str(root / "a-0")):
        assert Env().read_file(str(root / ".lock"), 10) == b""
        assert not is_free_elsewhere(root / ".lock")
    assert is_free_elsewhere(root / ".lock")


def test_a_directory_without_a_lock_file_gets_none(root: Path) -> None:
    (root / ".lock").unlink()
    with in_place_lock(str(root), env=Env()):
        assert not (root / ".lock").exists()
