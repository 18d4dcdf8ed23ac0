"""Checks, overviews and reads while files are removed before any of their operations: nothing is
wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import logdex
from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore, StoreConfig
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.examples import some
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store

CONFIG = StoreConfig(**SIZES)
LATER_MS = 1 << 50


class At(Env):
    """Acts before the n-th operation, if there are so many."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        super().__init__()
        self.left, self._act = number, act

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        self.left -= 1
        if self.left == 0:
            self._act()
        with super().operation(kind, path):
            yield


def fill(store: MessageStore) -> None:
    for number in range(100):
        store.put_message(Message("orders", b"%d" % number * 20, keys=f"k-{number}", queue_id=number % 2))
    store.dispatch()


def check(root: Path, env: Env) -> None:
    assert [str(finding) for finding in verify(str(root), CONFIG, env=env).findings] == []


def look(root: Path, env: Env) -> None:
    assert overview(str(root), CONFIG, env=env).problems == []


def read(root: Path, env: Env) -> None:
    with logdex.open(root, env=env, **SIZES) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        for queue_id in range(2):
            offset = 0
            while True:
                page = snapshot.get_message("orders", queue_id, offset, 20)
                for message in page.messages:
                    assert message.body == b"%d" % (2 * message.queue_offset + queue_id) * 20
                if page.next_begin_offset <= offset:
                    break
                offset = page.next_begin_offset
            assert offset == 50


@pytest.mark.parametrize("act", [check, look, read])
def test_files_expire_before_any_operation(act: Callable[[Path, Env], None], tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store)
        everything = At(0, lambda: None)
        act(tmp_path / "store", everything)
    for number in some(range(1, -everything.left + 1), 20):
        with open_store(tmp_path / str(number)) as store:
            fill(store)
            act(tmp_path / str(number), At(number, lambda store=store: store.delete_expired(0, now_ms=LATER_MS)))  # type: ignore[misc]


def test_an_overview_states_the_first_available_offset_where_only_the_log_lost_files(tmp_path: Path) -> None:
    """A broker removes files of the log before those of the queues."""
    with open_store(tmp_path) as store:
        fill(store)
    files = sorted((tmp_path / "commitlog").iterdir())
    assert len(files) > 2
    for file in files[:-1]:
        file.unlink()
        with logdex.open(tmp_path, **SIZES) as snapshot:
            assert isinstance(snapshot, StoreSnapshot)
            rows = [(message.queue_id, message.queue_offset) for message in snapshot.scan()]
        for queue in overview(str(tmp_path), CONFIG).queues:
            there = [offset for queue_id, offset in rows if queue_id == queue.queue_id]
            assert (queue.first_available_offset, queue.messages) == (min(there, default=50), len(there))
