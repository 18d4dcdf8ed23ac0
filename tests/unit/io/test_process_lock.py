"""Locks between processes: one per file and process, whatever its path, and never dropped by
closing another descriptor."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, ProcessLock, lock_is_held, take_lock
from logdex.testing import Fault, FaultEnv
from tests.unit.io.locks import descriptors, held_elsewhere, is_free_elsewhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / ".lock"


def taken(path: Path | str, *, shared: bool = False) -> ProcessLock:
    lock = take_lock(str(path), shared=shared)
    assert isinstance(lock, ProcessLock)
    return lock


def other_paths(path: Path) -> list[str]:
    """Paths of the same file: a relative one, one through links, a hard link."""
    above = path.parent.parent
    (above / "link").symlink_to(path.parent)
    (above / "file").symlink_to(path)
    os.link(path, above / "hard")
    return [
        os.path.relpath(path),
        f"{path.parent}/../home/{path.name}",
        str(above / "link" / path.name),
        str(above / "file"),
        str(above / "hard"),
    ]


# -- taking and giving up ------------------------------------------------------------------------
def test_it_is_held_until_it_is_released(path: Path) -> None:
    lock = taken(path)
    assert (lock.path, lock.is_own, lock.is_last) == (str(path), True, True)
    assert not is_free_elsewhere(path)
    lock.release()
    lock.release()
    assert is_free_elsewhere(path)
    assert path.read_bytes() == b""  # the file stays
    with taken(path):
        assert not is_free_elsewhere(path)
    assert is_free_elsewhere(path)
    assert descriptors(path) == 0


def test_who_holds_it_elsewhere_refuses_it(path: Path) -> None:
    with held_elsewhere(path):
        assert take_lock(str(path)) is LockHolder.ANOTHER_PROCESS
        assert take_lock(str(path), shared=True) is LockHolder.ANOTHER_PROCESS
        assert lock_is_held(str(path)) is True
        assert descriptors(path) == 0
    taken(path).release()


def test_no_other_path_leads_to_a_second_one(path: Path) -> None:
    path.touch()
    paths = [str(path), *other_paths(path)]
    for one in paths:
        with taken(one):
            for other in paths:
                assert take_lock(other) is LockHolder.THIS_PROCESS, (one, other)
                assert lock_is_held(other) is True
            assert not is_free_elsewhere(path)


def test_a_lock_file_that_was_removed_is_not_locked_anew(path: Path) -> None:
    lock = taken(path)
    path.unlink()
    assert take_lock(str(path)) is LockHolder.THIS_PROCESS
    path.touch()
    assert take_lock(str(path)) is LockHolder.THIS_PROCESS
    lock.release()
    taken(path).release()


# -- sharing -------------------------------------------------------------------------------------
def test_sharing(path: Path) -> None:
    first, second = taken(path, shared=True), taken(path.parent / "." / path.name, shared=True)
    assert (first.is_last, second.is_last) == (False, False)
    assert first.common(list) is second.common(list)
    assert take_lock(str(path)) is LockHolder.THIS_PROCESS
    first.release()
    first.release()
    assert second.is_last
    assert not is_free_elsewhere(path)
    second.release()
    assert is_free_elsewhere(path)
    with taken(path, shared=True) as third:
        assert third.common(lambda: "anew") == "anew"


def test_who_does_not_share_excludes_those_who_would(path: Path) -> None:
    with taken(path):
        assert take_lock(str(path), shared=True) is LockHolder.THIS_PROCESS
    taken(path, shared=True).release()


def test_threads_take_it_one_at_a_time(path: Path) -> None:
    inside, most, rounds = 0, 0, [0]

    def work() -> None:
        nonlocal inside, most
        for _ in range(200):
            lock = take_lock(str(path))
            if isinstance(lock, ProcessLock):
                inside += 1
                most = max(most, inside)
                rounds.append(1)
                inside -= 1
                lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == 1
    assert len(rounds) > 100
    assert is_free_elsewhere(path)


# -- other descriptors of the file ---------------------------------------------------------------
def test_the_file_may_be_read_and_written_meanwhile(path: Path) -> None:
    env = Env()
    path.write_bytes(b"lock")
    before = env.open_read(str(path))
    lock = taken(path)
    before.close()
    assert not is_free_elsewhere(path)
    assert env.read_file(str(path), 10) == b"lock"
    assert not is_free_elsewhere(path)
    with env.open_write(str(path)) as file:
        file.write_at(0, b"more")
    assert not is_free_elsewhere(path)
    assert lock_is_held(str(path)) is True
    assert env.lock_is_held(str(path)) is True
    assert not is_free_elsewhere(path)
    lock.release()
    assert is_free_elsewhere(path)
    assert descriptors(path) == 0  # those that had to wait were closed with it


def test_asking_opens_nothing_that_has_to_wait(path: Path) -> None:
    with taken(path):
        for _ in range(20):
            assert lock_is_held(str(path)) is True
            assert take_lock(str(path)) is LockHolder.THIS_PROCESS
        assert descriptors(path) == 1


def test_asking_of_a_lock_that_nobody_holds(path: Path) -> None:
    assert lock_is_held(str(path)) is False
    assert not path.exists()
    path.touch()
    assert lock_is_held(str(path)) is False
    path.unlink()
    path.mkdir()
    assert lock_is_held(str(path)) is None


# -- forks ---------------------------------------------------------------------------------------
_FORK = """
import os, sys, threading
from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, ProcessLock, lock_is_held, take_lock

path = sys.argv[1]
lock = take_lock(path, shared=True)
parent_goes, child_asks = os.pipe(), os.pipe()

def child():
    assert not lock.is_own
    assert lock_is_held(path) is True
    assert take_lock(path) is take_lock(path, shared=True) is LockHolder.ANOTHER_PROCESS
    lock.release()
    Env().read_file(path, 10)
    os.write(child_asks[1], b"x")
    os.read(parent_goes[0], 1)  # the parent has given it up
    assert lock_is_held(path) is False
    own = take_lock(path)
    assert isinstance(own, ProcessLock) and own.is_own
    lock.release()
    lock._held.file.close()  # the descriptor that was inherited
    os.write(child_asks[1], b"x")
    os.read(parent_goes[0], 1)  # the parent has asked
    own.release()

pid = os.fork()
if not pid:
    try:
        child()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
os.read(child_asks[0], 1)
assert take_lock(path, shared=True).is_own  # the child took nothing from it
again = os.fork()
if not again:
    os._exit(take_lock(path) is not LockHolder.ANOTHER_PROCESS)
assert os.waitstatus_to_exitcode(os.waitpid(again, 0)[1]) == 0
lock._held.file.close()
os.write(parent_goes[1], b"x")
os.read(child_asks[0], 1)
assert take_lock(path) is LockHolder.ANOTHER_PROCESS
os.write(parent_goes[1], b"x")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_forked_child_holds_nothing_and_takes_nothing(path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORK, str(path)], check=True, timeout=60)


_FORK_UNDER_THE_GUARD = """
import os, sys, threading
from logdex.io import process_lock, record_lock
from logdex.io.process_lock import ProcessLock, take_lock

held, go = threading.Event(), threading.Event()

def hold():
    with process_lock._table.guard, record_lock._locked.guard:
        held.set()
        go.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
pid = os.fork()
if not pid:
    os._exit(not isinstance(take_lock(sys.argv[1]), ProcessLock))
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
go.set()
thread.join()
sys.exit(code)
"""


def test_a_fork_while_another_thread_takes_a_lock(path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORK_UNDER_THE_GUARD, str(path)], check=True, timeout=20)


# -- refusals of the system ----------------------------------------------------------------------
def test_an_error_half_way_leaves_nothing_locked_nor_open(path: Path) -> None:
    clean = FaultEnv(str(path.parent))
    lock = take_lock(str(path), env=clean)
    assert isinstance(lock, ProcessLock)
    lock.release()
    for at in range(1, len(clean.log) + 1):
        env = FaultEnv(str(path.parent), Fault(at, errno.EIO))
        with pytest.raises(StorageError):
            take_lock(str(path), env=env)
        assert env.open_paths == []
        assert descriptors(path) == 0
        taken(path).release()


def test_a_process_that_was_killed_leaves_its_lock_to_the_next(path: Path) -> None:
    env = FaultEnv(str(path.parent))
    first = take_lock(str(path), env=env)
    assert isinstance(first, ProcessLock)
    env.release()
    second = taken(path)
    first.release()
    assert not is_free_elsewhere(path)
    second.release()
