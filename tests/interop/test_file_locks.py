"""The lock of this process and Java's `FileLock`, as both brokers take it, refuse each other and
see each other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, ProcessLock, lock_is_held, take_lock
from tests.java import QUICK

pytestmark = pytest.mark.needs_java

Ask = Callable[[str], str]


@pytest.fixture(scope="module")
def java() -> Iterator[Ask]:
    """Sends a line to `FileLocks` and returns its answer."""
    command = ["java", *QUICK, str(Path(__file__).with_name("FileLocks.java"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        given, told = process.stdin, process.stdout
        assert given is not None
        assert told is not None

        def ask(line: str) -> str:
            given.write(f"{line}\n")
            given.flush()
            return told.readline().strip()

        yield ask
        given.close()


@pytest.mark.parametrize("broker", ["kafka", "rocketmq"])
def test_each_refuses_the_other(java: Ask, broker: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"lock")
    take = f"{broker} {path}"
    assert java(take) == "taken"
    assert lock_is_held(str(path)) is True
    assert take_lock(str(path)) is LockHolder.ANOTHER_PROCESS
    assert Env().read_file(str(path), 10) == b"lock"
    assert lock_is_held(str(path)) is True
    assert java("release") == "released"
    assert lock_is_held(str(path)) is False
    lock = take_lock(str(path))
    assert isinstance(lock, ProcessLock)
    assert java(take) == "refused"
    assert Env().read_file(str(path), 10) == b"lock"
    assert take_lock(str(path)) is LockHolder.THIS_PROCESS
    assert java(take) == "refused"
    lock.release()
    assert java(take) == "taken"
    assert java("release") == "released"
