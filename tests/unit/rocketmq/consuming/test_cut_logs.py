"""A consumer of a store whose log a broker cuts meanwhile, as it does when it recovers, and then
goes on with: it goes back to the cut, so that no message of the log is missing."""

from __future__ import annotations

import errno
import json
import random
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing import Fault, FaultEnv
from tests.beside import At, become
from tests.examples import examples, some
from tests.unit.rocketmq.small_stores import CONFIG, CUT, MESSAGES, build, message

TOPIC = MESSAGES[0].topic.decode()
OTHERS = [message(number, tag="AB"[number % 2], body=b"other %d" % number * (1 + number % 5)) for number in range(50)]
REGROWN = CUT + OTHERS[len(CUT) :]
OF_SAME_SIZE = CUT + [message(n, tag="AB"[n % 2], body=b"BODY %d" % n) for n in range(len(CUT), 50)]


def cut(root: Path, after: Path) -> None:
    for folder in ("commitlog", "consumequeue", "index"):
        become(root / folder, after / folder)


def wanted(messages: list[StoredMessage], tags: bytes | None) -> list[bytes]:
    return [each.body for each in messages if tags in (None, each.tags)]


def member_of(root: Path, env: Env | None = None, tags: bytes | None = None, group: str = "G") -> Consumer:
    with StoreSnapshot(root, config=CONFIG) as snapshot:
        return Consumer(snapshot, group, TOPIC, tags=tags, env=env, rebalance_interval_s=0.0)


def polled(member: Consumer, at_once: int) -> list[bytes]:
    """Polls until nothing comes, and commits."""
    found = list[bytes]()
    while messages := member.poll(at_once):
        found += [each.body for each in messages]
        member.commit()
    return found


def consumed(root: Path, tags: bytes | None, at_once: int, env: Env) -> list[bytes]:
    with member_of(root, env, tags) as member:
        return polled(member, at_once)


@pytest.mark.parametrize(
    ("messages", "tags", "at_once"),
    [
        *((CUT, None, 7), (REGROWN, None, 7), (REGROWN, None, 100), (REGROWN, b"A", 3), (OTHERS, None, 7)),
        *((OF_SAME_SIZE, None, 7), (OF_SAME_SIZE, b"A", 100)),
    ],
    ids=["cut", "regrown", "regrown-at-once", "tag", "another", "same-size", "same-size-tag"],
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


def test_a_group_that_had_read_everything_goes_back_a_few_messages(tmp_path: Path) -> None:
    grown = MESSAGES[:-1] + OTHERS[len(MESSAGES) - 1 :]
    root, after = build(tmp_path / "store", MESSAGES), build(tmp_path / "after", grown)
    with member_of(root) as member:
        assert polled(member, 7) == wanted(MESSAGES, None)
    with member_of(root) as member:
        assert polled(member, 7) == []
        cut(root, after)
        assert polled(member, 7) == wanted(grown[len(MESSAGES) - 1 :], None)
    with member_of(root) as member:
        assert polled(member, 7) == []


def test_a_disk_that_refuses_once_hides_no_cut(tmp_path: Path) -> None:
    before, after = build(tmp_path / "before", MESSAGES), build(tmp_path / "after", REGROWN)
    refused = 0
    for number in some(range(1, 400), 45):
        root = Path(shutil.copytree(before, tmp_path / "root"))
        env = FaultEnv(str(root))
        with member_of(root, env) as member:
            found = polled(member, 7)
            cut(root, after)
            env.fault = Fault(number, errno.EIO)
            for _ in range(60):
                try:
                    found += [each.body for each in member.poll(7)]
                    member.commit()
                except StoreError:
                    refused += 1
        assert set(wanted(REGROWN, None)) <= set(found), number
        shutil.rmtree(root)
    assert refused


class History:
    """A store of two queues whose log is cut again and again, between and within the polls of two
    consumers."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.chance = root / "store", random.Random(seed)
        self.log = self._grown([], 0)
        self.builds = 0
        build(self.root, self.log)
        names = {TOPIC: 2, "%RETRY%G": 1}
        table = {
            name: {"topicName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6}
            for name, count in names.items()
        }
        (self.root / "config").mkdir()
        (self.root / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": table}))

    def _grown(self, kept: list[StoredMessage], life: int) -> list[StoredMessage]:
        log, ends = list(kept), Counter[int](each.queue_id for each in kept)
        for number in range(len(kept), len(kept) + self.chance.choice([0, 1, 5, 30, 60])):
            queue_id = self.chance.randrange(2)
            body = b"%d of life %d" % (number, life) + bytes(self.chance.choice([0, 5, 100]))
            made = message(ends[queue_id], queue_id=queue_id, tag=self.chance.choice("AB"), body=body)
            log.append(made)
            ends[queue_id] += 1
        return log

    def cut(self) -> None:
        self.builds += 1
        kept = self.chance.choice([len(self.log), len(self.log) - 1, self.chance.randrange(len(self.log) + 1)])
        self.log = self._grown(self.log[: max(kept, 1)], self.builds) or self.log
        cut(self.root, build(self.root.parent / f"life-{self.builds}", self.log))


@pytest.mark.parametrize("seed", range(examples(300)))
def test_random_cuts(seed: int, tmp_path: Path) -> None:
    history = History(tmp_path, seed)
    chance, envs = history.chance, [At(0, history.cut) for _ in range(2)]
    found: list[set[bytes]] = [set(), set()]
    with member_of(history.root, envs[0]) as plain, member_of(history.root, envs[1], b"A", "T") as tagged:
        members = plain, tagged
        for _ in range(chance.randrange(10, 40)):
            which = chance.randrange(2)
            kind = chance.random()
            if kind < 0.06:
                history.cut()
            elif kind < 0.15:
                envs[which].left = chance.randrange(1, 120)
            else:
                found[which] |= {each.body for each in members[which].poll(chance.choice([1, 3, 7, 100]))}
                if kind < 0.6:
                    members[which].commit()
        for env in envs:
            env.left = 0
        for which, member in enumerate(members):
            found[which] |= set(polled(member, 100))
    assert found[0] >= set(wanted(history.log, None))
    assert found[1] >= set(wanted(history.log, b"A"))
