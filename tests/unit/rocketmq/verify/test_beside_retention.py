"""Checks, overviews and reads while files are removed before any of their operations: nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import logdex
from logdex.io.env import Env
from logdex.rocketmq import IndexService, Message, MessageStore, StoreConfig
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
    for number in some(range(1, -everything.left + 1), 9):
        with open_store(tmp_path / str(number)) as store:
            fill(store)
            act(tmp_path / str(number), At(number, lambda store=store: store.delete_expired(0, now_ms=LATER_MS)))  # type: ignore[misc]


class BeforeEntries(Env):
    """Looks for keys whenever entries are about to be written to an IndexFile."""

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()
        self._look = look

    @contextmanager
    def operation(self, kind: str, path: str) -> Iterator[None]:
        if kind == "write_at" and "/index/" in path:
            self._look()
        with super().operation(kind, path):
            yield


def test_readers_find_old_keys_while_new_ones_are_added(tmp_path: Path) -> None:
    found: list[int] = []

    def look_for_keys() -> None:
        with IndexService(tmp_path / "store" / "index", StoreConfig(**{**SIZES, "max_index_num": 600})) as index:
            found.append(sum(bool(index.query_offset("orders", f"k-{number}").phy_offsets) for number in range(done)))

    with open_store(tmp_path / "store", env=BeforeEntries(look_for_keys), max_index_num=600) as store:
        for done in range(0, 100, 10):
            for number in range(done, done + 10):
                store.put_message(Message("orders", b"", keys=f"k-{number}", queue_id=0))
            store.dispatch()
            assert found[-1] == done
    assert len(found) >= 10
