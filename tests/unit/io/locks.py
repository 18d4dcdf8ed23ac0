"""Locks that another process holds, as a running broker does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.lockf(file, fcntl.LOCK_EX, int(sys.argv[2]))
print(flush=True)
sys.stdin.read()
"""


_TRY = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    sys.exit(7)
"""


def is_free_elsewhere(path: Path) -> bool:
    """Whether another process could take the lock, as a broker that starts would."""
    code = subprocess.run([sys.executable, "-S", "-c", _TRY, str(path)], timeout=20, check=False).returncode
    assert code in (0, 7)
    return code == 0


@contextmanager
def held_elsewhere(path: Path, *, size_bytes: int = 0) -> Iterator[None]:
    """Another process holds the lock file `path`, which is made where it is missing, until the
    block ends: all of it, or its first `size_bytes`, as RocketMQ's broker holds 1."""
    command = [sys.executable, "-c", _HOLD, str(path), str(size_bytes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"\n"
            yield
        finally:
            other.kill()


def descriptors(path: Path) -> int:
    """How many descriptors of a file this process has open."""
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("needs /proc")
    found = 0
    for each in os.listdir("/proc/self/fd"):
        try:
            found += os.path.samestat(os.fstat(int(each)), path.stat())
        except OSError:
            pass  # the one that listed them
    return found
