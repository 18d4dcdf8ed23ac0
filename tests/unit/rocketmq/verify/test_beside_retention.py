"""Checks, overviews and reads while files are removed before any of their operations: nothing is
wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore, StoreConfig
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.beside import At
from tests.examples import every, some
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store

CONFIG = StoreConfig(**SIZES)
LATER_MS = 1 << 50
MANY_INDEX_FILES = {**SIZES, "max_index_num": 4}
"""So many IndexFiles that not each has a descriptor of its own."""


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


def query(root: Path, env: Env, sizes: dict[str, Any] = SIZES) -> None:
    with logdex.open(root, env=env, **sizes) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        answers = {number: snapshot.query_message("orders", f"k-{number}") for number in range(0, 100, 11)}
    with logdex.open(root, **sizes) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        left = {message.body for message in snapshot.scan()}
    for number, answer in answers.items():
        found = [message.body for message in answer.messages]
        assert found == [b"%d" % number * 20] or (found == [] and b"%d" % number * 20 not in left)
        assert (answer.complete, answer.missing, answer.unreadable) == (True, (), ())


def query_many_files(root: Path, env: Env) -> None:
    query(root, env, MANY_INDEX_FILES)


@pytest.mark.parametrize(("act", "step"), [(check, 1), (look, 1), (read, 1), (query, 1), (query_many_files, 10)])
def test_files_expire_before_any_operation(act: Callable[[Path, Env], None], step: int, tmp_path: Path) -> None:
    sizes = MANY_INDEX_FILES if act is query_many_files else SIZES
    with open_store(tmp_path / "store", **sizes) as store:
        fill(store)
        everything = At(0, lambda: None)
        act(tmp_path / "store", everything)
    for number in some(every(step, range(1, -everything.left + 1)), 120 // step, first=7):
        with open_store(tmp_path / str(number), **sizes) as store:
            fill(store)
            act(tmp_path / str(number), At(number, lambda store=store: store.delete_expired(0, now_ms=LATER_MS)))  # type: ignore[misc]


@pytest.mark.parametrize("act", [check, look])
def test_a_topic_is_deleted_before_any_operation(act: Callable[[Path, Env], None], tmp_path: Path) -> None:
    """The engine rewrites topics.json first, and then removes the topic's queues."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("gone", b"body"))
        fill(store)
    everything = At(0, lambda: None)
    act(tmp_path / "store", everything)
    for number in some(range(1, -everything.left + 1), 12, first=7):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "store", root)

        def delete(root: Path = root) -> None:
            topics = root / "config" / "topics.json"
            listed = json.loads(topics.read_text())
            del listed["topicConfigTable"]["gone"]
            topics.write_text(json.dumps(listed))
            shutil.rmtree(root / "consumequeue" / "gone")

        with open_store(root):  # the lock file tells that an engine is running
            act(root, At(number, delete))


def test_index_files_go_away_before_their_messages(tmp_path: Path) -> None:
    """A broker that starts after a crash removes IndexFiles of messages that are still there."""
    with open_store(tmp_path / "store", **MANY_INDEX_FILES) as store:
        fill(store)

    def ask(env: Env, root: Path, *, scan_missing: bool) -> None:
        with logdex.open(root, env=env, **MANY_INDEX_FILES) as snapshot:
            assert isinstance(snapshot, StoreSnapshot)
            for number in range(0, 100, 33):
                answer = snapshot.query_message("orders", f"k-{number}", scan_missing=scan_missing)
                if answer.complete or answer.messages:
                    assert [message.body for message in answer.messages] == [b"%d" % number * 20]
            snapshot.refresh()
            answer = snapshot.query_message("orders", "k-99", scan_missing=True)
            assert [message.body for message in answer.messages] == [b"99" * 20]

    everything = At(0, lambda: None)
    ask(everything, tmp_path / "store", scan_missing=True)
    count = -everything.left
    for number in some(range(1, count, count // 60), 10):
        root = tmp_path / str(number)
        shutil.copytree(tmp_path / "store", root)

        def remove(root: Path = root, number: int = number) -> None:
            for file in sorted((root / "index").iterdir())[number % 3 :: 3]:
                file.unlink()

        ask(At(number, remove), root, scan_missing=number % 2 == 0)


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
