"""Whether ConsumeQueues name a message: yes, no, or nothing to go by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.layout.rocketmq import SYS_FLAG_PREPARED
from logdex.rocketmq.consume_queue.named_messages import NamedMessages
from logdex.rocketmq.message.stored_message import StoredMessage
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, build, message, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", [*MESSAGES, message(50), message(7, queue_id=2)])


@pytest.fixture
def named(root: Path) -> Iterator[NamedMessages]:
    found = NamedMessages(str(root), CONFIG, DEFAULT_ENV)
    yield found
    found.close()


@pytest.fixture
def stored(root: Path) -> list[StoredMessage]:
    with opened(root) as store:
        return list(store.scan())


def test_a_message_at_its_place(named: NamedMessages, stored: list[StoredMessage]) -> None:
    assert all(named(one.physical_offset, one) for one in stored)


def test_a_message_at_another_place_or_of_another_size(named: NamedMessages, stored: list[StoredMessage]) -> None:
    assert named(stored[3].physical_offset + 1, stored[3]) is False
    assert named(stored[3].physical_offset, replace(stored[3], size_bytes=stored[3].size_bytes + 1)) is False
    assert named(stored[3].physical_offset, replace(stored[3], queue_offset=4)) is False


@pytest.mark.parametrize(
    "change",
    [
        {"topic": b"Unknown"},
        {"topic": b"no/folder"},
        {"queue_id": 9},
        {"queue_offset": -1},
        {"queue_offset": 1 << 40},
        {"queue_offset": 45},
        {"sys_flag": SYS_FLAG_PREPARED},
        {"queue_id": 2, "queue_offset": 3},
    ],
    ids=str,
)
def test_nothing_to_go_by(change: dict[str, int], named: NamedMessages, stored: list[StoredMessage]) -> None:
    assert named(stored[3].physical_offset, replace(stored[3], **change)) is None  # type: ignore[arg-type]


def test_files_that_cannot_be_read_say_nothing(root: Path, stored: list[StoredMessage]) -> None:
    for path in (root / "consumequeue").glob("*/0/*"):
        path.unlink()
    named = NamedMessages(str(root), CONFIG, DEFAULT_ENV)
    assert named(stored[3].physical_offset, stored[3]) is None
