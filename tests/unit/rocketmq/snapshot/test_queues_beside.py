"""Reads of a queue, page by page, while its topic is deleted, created again, or its old files are
removed. No page is wrong, and none fails."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.beside import At
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, START_MS, build, message, numbers

Found = list[StoredMessage]
NEW = [message(number, body=b"new", store_timestamp_ms=START_MS + 100_000 + number) for number in range(25)]
"""What is put into the topic once it was created again."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("pages") / "store", MESSAGES)


@pytest.fixture(scope="module")
def created_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("pages") / "again", MESSAGES + NEW)


def by_page(snapshot: StoreSnapshot) -> Found:
    found: Found = []
    offset = 0
    while (page := snapshot.get_message("TopicA", 0, offset, max_count=6)).next_begin_offset > offset:
        assert page.problem is None
        found += page.messages
        offset = page.next_begin_offset
    return found


def by_column(snapshot: StoreSnapshot) -> Found:
    found: Found = []
    offset = 0
    wanted = ["queue_offset"]
    while (page := snapshot.get_columns("TopicA", 0, offset, 6, columns=wanted)).next_begin_offset > offset:
        found += [MESSAGES[place] for place in page.table["queue_offset"].to_pylist()]
        offset = page.next_begin_offset
    return found


def tail(snapshot: StoreSnapshot) -> Found:
    found = snapshot.get_tail("TopicA", 0, 30)
    assert found.problems == []
    return [message for _, message in found.messages]


def delete_topic(root: Path, _: Path) -> None:
    shutil.rmtree(root / "consumequeue" / "TopicA")


def create_again(root: Path, again: Path) -> None:
    delete_topic(root, again)
    for folder in ("commitlog", "consumequeue/TopicA"):
        shutil.copytree(again / folder, root / folder, dirs_exist_ok=True)


def remove_old_files(root: Path, _: Path) -> None:
    for path in sorted((root / "consumequeue/TopicA/0").iterdir())[:-1]:
        path.unlink()


@pytest.mark.parametrize("read", [by_page, by_column, tail])
@pytest.mark.parametrize("event", [delete_topic, create_again, remove_old_files])
def test_a_queue_changes_before_any_operation(
    store: Path,
    created_again: Path,
    event: Callable[[Path, Path], object],
    read: Callable[[StoreSnapshot], Found],
    tmp_path: Path,
) -> None:
    def run(root: Path, env: Env) -> list[int]:
        with StoreSnapshot(root, config=CONFIG, env=env) as snapshot:
            return numbers(read(snapshot))

    still = At(0, lambda: None)
    rest = Path(shutil.copytree(store, tmp_path / "rest"))
    event(rest, created_again)
    right = {*run(store, still), *run(rest, Env())}
    for number in some(range(1, -still.left + 1), 7):
        root = Path(shutil.copytree(store, tmp_path / str(number)))
        found = run(root, At(number, partial(event, root, created_again)))
        assert found == sorted(set(found)), number
        assert right.issuperset(found), number
        shutil.rmtree(root)
