"""OutputFiles: full size at the first write, few open at a time, all of them synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from logdex.io.env import Env, WriteFile
from logdex.io.output_files import OutputFiles


class CountingEnv(Env):
    """Counts syncs and files open for writing."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: set[str] = set()
        self.open_now = self.open_max = 0

    def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
        env = self

        class Counted(WriteFile):
            def sync(self) -> None:
                super().sync()
                env.synced.add(self.path)

            def close(self) -> None:
                env.open_now -= self._fd >= 0
                super().close()

        self.open_now += 1
        self.open_max = max(self.open_max, self.open_now)
        return Counted(self, path, exclusive=exclusive)


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    env = CountingEnv()
    files = OutputFiles(env, sync=True, open_max=3)
    names = [f"{tmp_path}/d{n % 2}/f{n}" for n in range(10)]
    for turn in range(4):
        for name in names:
            files.write_at(name, 50, 10 * turn, np.full(5, turn + 1, np.uint8))
    assert files.close() == 10
    assert (env.open_max, env.open_now) == (3, 0)
    assert env.synced == set(names)
    expected = b"".join(bytes([turn + 1] * 5 + [0] * 5) for turn in range(4)).ljust(50, b"\0")
    assert all(Path(name).read_bytes() == expected for name in names)


def test_unsynced(tmp_path: Path) -> None:
    env = CountingEnv()
    files = OutputFiles(env, sync=False)
    files.write_at(f"{tmp_path}/f", 8, 0, np.ones(8, np.uint8))
    assert files.close() == 1
    assert not env.synced


class KindsEnv(Env):
    """Notes the kind of each operation on a file."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[str] = []

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.kinds.append(kind)
        with super().operation(kind, path):
            yield


@pytest.mark.parametrize("sync", [True, False])
def test_the_disk_begins_with_all_files_before_the_first_is_waited_for(tmp_path: Path, sync: bool) -> None:
    env = KindsEnv()
    files = OutputFiles(env, sync=sync)
    files.write_at(f"{tmp_path}/full", 10, 5, np.full(5, 1, np.uint8))
    assert env.kinds.count("begin_writeback") == sync
    files.write_at(f"{tmp_path}/partly", 10, 0, np.full(5, 1, np.uint8))
    files.close()
    ends = [kind for kind in env.kinds if kind in ("begin_writeback", "sync")]
    assert ends == (["begin_writeback"] * 3 + ["sync"] * 2 if sync else [])


def test_after_an_error_files_are_closed_as_they_are(tmp_path: Path) -> None:
    env = CountingEnv()

    def fail() -> None:
        with OutputFiles(env, sync=True) as files:
            files.put(f"{tmp_path}/f", b"whole")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (env.open_now, set(env.synced)) == (0, set())
    with OutputFiles(env, sync=True) as files:
        files.put(f"{tmp_path}/g", b"whole")
    assert (env.open_now, set(env.synced)) == (0, {f"{tmp_path}/g"})
