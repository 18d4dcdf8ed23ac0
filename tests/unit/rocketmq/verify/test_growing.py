"""Checks and scans beside a broker that writes: nothing is found, whatever moment each byte is
looked at."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import recover
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.examples import cases, some
from tests.unit.rocketmq.verify.growing import IN_ORDER, GrowingStore, WatchedEnv
from tests.unit.rocketmq.verify.test_verify import SMALL, messages

ORDERS = [tuple(range(9)), (*range(1, 9), 0), tuple(reversed(range(9))), *itertools.permutations(IN_ORDER)]
"""Orders in which the parts of a message show: forward, the head last, backward, and all orders of
three parts."""


@pytest.mark.parametrize(
    ("count", "steps"), cases(itertools.product([0, 1, 7, 20, 33], [1, 2, 3, 5, 8, 13, 21, 34]), 7)
)
def test_verify_beside_a_broker(count: int, steps: int, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), max(count, 1), SMALL)
    store.step(count)  # in the middle of a message or an entry
    for _ in range(3):
        report = verify(str(store.root), SMALL, env=WatchedEnv(store, steps))
        assert [(finding.check, finding.path, finding.message) for finding in report.findings] == []
        assert report.is_sound
    store.step(10**6)
    report = verify(str(store.root), SMALL)
    assert (report.findings, report.messages) == ([], 60)


@pytest.mark.parametrize(("count", "steps"), cases(itertools.product([1, 7, 20, 33], [1, 2, 3, 5, 8]), 6))
def test_scans_beside_a_broker(count: int, steps: int, tmp_path: Path) -> None:
    store = GrowingStore(tmp_path / "store", messages(60), count, SMALL)
    for _ in range(20):
        with StoreSnapshot(str(store.root), config=SMALL, env=WatchedEnv(store, steps)) as snapshot:
            scan = snapshot.scan()
            found = [at for at, _ in scan.items()]
        assert scan.end is not None
        assert scan.end.is_clean, scan.end
        assert len(found) >= count
        assert found == [message.physical_offset for message in store.rows[: len(found)]]
        count = len(found)


def check(store: GrowingStore, env: Env) -> None:
    report = verify(str(store.root), SMALL, env=env)
    assert [str(finding) for finding in report.findings] == []
    assert report.is_sound


def look(store: GrowingStore, env: Env) -> None:
    found = overview(str(store.root), SMALL, env=env)
    assert found.problems == []
    assert found.log.is_clean_end, found.log.end_reason


def scan(store: GrowingStore, env: Env) -> None:
    with StoreSnapshot(str(store.root), config=SMALL, env=env) as snapshot:
        scan = snapshot.scan()
        found = list(scan)
    assert scan.end is not None
    assert scan.end.is_clean, scan.end
    first = next((place for place, row in enumerate(store.rows) if row == found[0]), 0) if found else 0
    assert found == store.rows[first : first + len(found)]


def derive(store: GrowingStore, env: Env) -> None:
    report = rebuild(str(store.root), f"{store.root}-rebuilt", SMALL, sync=False, env=env)
    assert not report.lossy


READERS = [check, look, scan, derive]


@pytest.mark.parametrize(("reader", "order"), cases(itertools.product(READERS, ORDERS), 5, first=1))
def test_bytes_show_in_any_order(
    reader: Callable[[GrowingStore, Env], None], order: Sequence[int], tmp_path: Path
) -> None:
    for count, torn in some([(count, torn) for count in (1, 19, 20, 33) for torn in range(6)], 12, first=4):
        store = GrowingStore(tmp_path / f"{count}-{torn}", messages(60), count, SMALL, order=order, is_ahead=True)
        store.step(torn)
        reader(store, WatchedEnv(store, len(order) // 3))


class Burst(Env):
    """A broker that stands still until an operation, then writes much at once and removes old
    files, and goes on."""

    def __init__(self, store: GrowingStore, number: int) -> None:
        super().__init__()
        self.left, self._store = number, store

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.left -= 1
        if self.left == 0:
            self._store.step(24 * 30)
            self._store.remove_oldest()
        elif self.left < 0:
            self._store.step(3)
        with super().operation(kind, path):
            yield


@pytest.mark.parametrize(("reader", "is_ahead"), cases(itertools.product(READERS, [False, True]), 5))
def test_the_log_rolls_and_loses_its_oldest_files(
    reader: Callable[[GrowingStore, Env], None], is_ahead: bool, tmp_path: Path
) -> None:
    still = Burst(GrowingStore(tmp_path / "still", messages(30), 26, SMALL, is_ahead=is_ahead), 0)
    reader(still._store, still)
    for number in some(range(1, 1 - still.left), 18):
        store = GrowingStore(tmp_path / f"{number}", messages(120), 26, SMALL, is_ahead=is_ahead)
        reader(store, Burst(store, number))


class Shutdown(Env):
    """A broker that shuts down at an operation: it removes the files that it has made ahead, one
    per operation, then ``abort``."""

    def __init__(self, store: GrowingStore, number: int) -> None:
        super().__init__()
        self.left, self._store = number, store
        newest = max((store.root / "commitlog").glob("[0-9]*"))
        self.ahead = [newest.with_name(f"{int(newest.name) + 4096 * more:020d}") for more in (1, 2)]
        for path in self.ahead:
            path.write_bytes(bytes(4096))
        (store.root / "abort").touch()

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.left -= 1
        if self.left <= 0:
            (self.ahead.pop(0) if self.ahead else self._store.root / "abort").unlink(missing_ok=True)
        with super().operation(kind, path):
            yield


def ask(store: GrowingStore, env: Env) -> None:
    with StoreSnapshot(str(store.root), config=SMALL, env=env) as snapshot:
        found = snapshot.query_message(store.rows[0].topic, "all")
    assert (found.complete, len(found.messages)) == (True, len(store.rows))


def salvage(store: GrowingStore, env: Env) -> None:
    report = recover(str(store.root), f"{store.root}-rebuilt", SMALL, sync=False, env=env)
    assert (report.messages, report.lossy) == (len(store.rows), False)


def dispatch(store: GrowingStore, env: Env) -> None:
    with Dispatcher(str(store.root), f"{store.root}-rebuilt", SMALL, env=env) as job:
        job.step()
    assert (job.report.messages, job.report.lossy) == (len(store.rows), False)


@pytest.mark.parametrize("reader", [*READERS, ask, salvage, dispatch])
def test_the_broker_shuts_down_and_removes_the_files_made_ahead(
    reader: Callable[[GrowingStore, Env], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = partial(OpenFiles, open_max=1)  # as in a log of many files, which are not all open
    monkeypatch.setattr("logdex.rocketmq.commit_log.commit_log.OpenFiles", few)
    store = GrowingStore(tmp_path / "store", messages(30), 30, SMALL)

    def calls(shutdown: Shutdown) -> int:
        before = shutdown.left
        reader(store, shutdown)
        shutil.rmtree(f"{store.root}-rebuilt", ignore_errors=True)
        for path in shutdown.ahead:
            path.unlink()
        return before - shutdown.left

    for number in some(range(1, calls(Shutdown(store, 10**6)) + 1), 50, first=9):
        calls(Shutdown(store, number))
