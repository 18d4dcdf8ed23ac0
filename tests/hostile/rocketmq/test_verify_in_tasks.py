"""Tasks of `verify` that meet bytes which cannot be read, and files that become shorter: the report
is that of one task, and nothing else is raised."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from logdex.errors import UnreadableError
from logdex.io.env import Env
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.verify import verify
from logdex.testing import BadSectorsEnv
from tests.examples import cases, some
from tests.hostile.rocketmq.cut_readers import CONFIG, MESSAGES, make
from tests.unit.kafka.verify.test_in_tasks import facts

CUT_BYTES = 8000


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("tasks") / "store")


def report(root: Path, env: Env, jobs: int) -> dict[str, object]:
    return facts(verify(str(root), CONFIG, env=env, runner=LocalRunner(jobs=jobs), cut_bytes=CUT_BYTES))


@pytest.mark.parametrize("name", ["commitlog", "consumequeue/TopicB/1", "index"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_bad_sector(name: str, number: int, root: Path) -> None:
    path = sorted((root / name).iterdir())[number]
    at = path.stat().st_size // 2
    told = [report(root, BadSectorsEnv({str(path): [(at, at + 512)]}), jobs) for jobs in (1, 2, 5)]
    assert told[0]["findings"]
    assert told[1:] == [told[0]] * 2


class Shrinking(Env):
    """Cuts a file before an operation of any thread, the `left`-th one."""

    def __init__(self, path: Path, left: int) -> None:
        super().__init__()
        self.left, self._path, self._lock = left, path, threading.Lock()

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        with self._lock:
            self.left -= 1
            if not self.left:
                with self._path.open("r+b") as file:
                    file.truncate(self._path.stat().st_size // 3)
        with super().operation(kind, path):
            yield


@pytest.mark.parametrize("name", cases(["commitlog", "consumequeue/TopicA/0", "index"], 3, first=1))
def test_a_file_that_becomes_shorter_meanwhile(name: str, root: Path, tmp_path: Path) -> None:
    untouched = Shrinking(root, 0)
    assert report(root, untouched, 3)["findings"] == 0
    for number in some(range(1, -untouched.left + 1, 6), 60, first=3):
        copy = tmp_path / str(number)
        shutil.copytree(root, copy)
        path = sorted((copy / name).iterdir())[0]
        with suppress(UnreadableError):  # "try again"
            told = report(copy, Shrinking(path, number), 3)
            assert told["messages"] <= MESSAGES  # type: ignore[operator]
        behind = [report(copy, Env(), jobs) for jobs in (1, 2, 5)]
        assert behind[0]["findings"]
        assert behind[1:] == [behind[0]] * 2
        shutil.rmtree(copy)
