"""Tasks of `verify` beside a broker that writes: nothing is found, whatever a task saw half
written."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.verify import verify
from tests.examples import cases
from tests.unit.rocketmq.verify.growing import GrowingStore
from tests.unit.rocketmq.verify.test_verify import SMALL, messages


class Watched(Env):
    """Has a store grow by some steps before each call that reads, in any thread."""

    def __init__(self, store: GrowingStore, steps: int) -> None:
        super().__init__()
        self._store, self._steps, self._lock = store, steps, threading.Lock()

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        with self._lock:
            self._store.step(self._steps)
        with super().operation(kind, path):
            yield


@pytest.mark.parametrize(("count", "steps"), cases(itertools.product([1, 7, 20, 33], [1, 2, 5, 13]), 5))
def test_nothing_is_found(count: int, steps: int, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), count, SMALL)
    for _ in range(3):
        env = Watched(store, steps)
        report = verify(str(store.root), SMALL, env=env, runner=LocalRunner(jobs=3), cut_bytes=500)
        assert [(finding.check, finding.path, finding.message) for finding in report.findings] == []
    store.step(10**6)
    report = verify(str(store.root), SMALL, runner=LocalRunner(jobs=3), cut_bytes=500)
    assert (report.findings, report.messages) == ([], 60)
