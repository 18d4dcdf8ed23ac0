"""A consumer of a store whose log a broker cuts meanwhile, as it does when it recovers, and then
goes on with: it goes back to the cut, so that no message of the log is missing."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.beside import At, become
from tests.examples import some
from tests.unit.rocketmq.small_stores import CONFIG, CUT, MESSAGES, build, message

TOPIC = MESSAGES[0].topic.decode()
OTHERS = [message(number, tag="AB"[number % 2], body=b"other %d" % number * (1 + number % 5)) for number in range(50)]
REGROWN = CUT + OTHERS[len(CUT) :]


def cut(root: Path, after: Path) -> None:
    for folder in ("commitlog", "consumequeue", "index"):
        become(root / folder, after / folder)


def wanted(messages: list[StoredMessage], tags: bytes | None) -> list[bytes]:
    return [each.body for each in messages if tags in (None, each.tags)]


def consumed(root: Path, tags: bytes | None, at_once: int, env: Env) -> list[bytes]:
    found = list[bytes]()
    with (
        StoreSnapshot(root, config=CONFIG) as snapshot,
        Consumer(snapshot, "G", TOPIC, tags=tags, env=env, rebalance_interval_s=0.0) as member,
    ):
        while polled := member.poll(at_once):
            found += [each.body for each in polled]
            member.commit()
    return found


@pytest.mark.parametrize(
    ("messages", "tags", "at_once"),
    [(CUT, None, 7), (REGROWN, None, 7), (REGROWN, None, 100), (REGROWN, b"A", 3), (OTHERS, None, 7)],
    ids=["cut", "regrown", "regrown-at-once", "tag", "another"],
)
def test_every_message_of_the_later_log_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, messages: list[StoredMessage], tags: bytes | None, at_once: int
) -> None:
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", messages)
    old, went_back, still = wanted(MESSAGES, tags), 0, At(0, lambda: None)
    assert consumed(Path(shutil.copytree(before, tmp_path / "still")), tags, at_once, still) == old
    for number in some(range(1, -still.left + 1), 60):
        root = Path(shutil.copytree(before, tmp_path / "root"))
        caplog.clear()
        found = consumed(root, tags, at_once, At(number, partial(cut, root, after)))
        assert found == old or set(wanted(messages, tags)) <= set(found), number
        went_back += any("was cut" in each.message for each in caplog.records)
        shutil.rmtree(root)
    assert went_back
