"""Consumers whose process is killed, refused or cut off from power at any call: no committed offset
goes back behind what was acknowledged, none is ahead of the log, and what was not committed comes
again."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.consuming.membership import Queue
from logdex.rocketmq.message_store.put.message import Message
from logdex.testing import CHANGES, Fault, FaultEnv, Killed
from tests.crash.rocketmq.store_runs import open_store, sizes_of
from tests.unit.rocketmq.consuming.stores import read_all

SEEDS, SEEDS_SLOW = 8, 600


class Run:
    """A process that puts, polls and commits until something stops it."""

    def __init__(self, env: FaultEnv, place: Path, seed: int) -> None:
        self.env, self.place, self.chance = env, place, random.Random(seed)
        self.acknowledged: dict[Queue, int] = {}
        self.attempted: dict[Queue, int] = {}

    def go(self) -> None:
        try:
            self._work()
        except (LogdexError, Killed):
            pass
        finally:
            self.env.release()

    def _work(self) -> None:
        flush = self.chance.choice(("sync", "async"))
        store = open_store(self.place / "store", sizes_of(random.Random(1)), random.Random(0), self.env, flush)
        member = Consumer(store, "G", "T", rebalance_interval_s=0.0)
        for number in range(20):
            if self.chance.random() < 0.5:
                store.put_message(Message("T", b"%d" % number, queue_id=self.chance.randrange(4)))
            for message in member.poll(self.chance.randint(1, 3)):
                if self.chance.random() < 0.1:
                    member.reconsume_later(message)
            if self.chance.random() < 0.5:
                wanted = dict(member._positions)
                self.attempted.update({queue: max(at, self.attempted.get(queue, 0)) for queue, at in wanted.items()})
                member.commit()
                self.acknowledged.update(wanted)


def check(place: Path, acknowledged: dict[Queue, int], attempted: dict[Queue, int]) -> dict[Queue, int]:
    """Requires that what was acknowledged is there, and that the rest of the log comes. Returns
    what is committed."""
    root = place / "store"
    found = ConsumerOffsetManager(root).read().offsets
    committed = {(topic, queue): at for (topic, _), queues in found.items() for queue, at in queues.items()}
    for queue in attempted.keys() | acknowledged.keys() | committed.keys():
        low, high = acknowledged.get(queue, 0), max(attempted.get(queue, 0), acknowledged.get(queue, 0))
        assert low <= committed.get(queue, 0) <= high, queue
    with open_store(root, sizes_of(random.Random(1)), random.Random(0), DEFAULT_ENV, "async") as store:
        ends = {(each.topic, each.queue_id): each.max_offset for each in store.queues()}
        assert all(at <= ends.get(queue, 0) for queue, at in committed.items())
        left = sum(end - committed.get(queue, 0) for queue, end in ends.items() if queue[0] in (b"T", b"%RETRY%G"))
        with Consumer(store, "G", "T", rebalance_interval_s=0.0) as member:
            assert len(read_all(member)) == left
    return committed


def crash(folder: Path, seed: int) -> None:
    chance = random.Random(seed)
    place, known = folder / "0", dict[Queue, int]()
    place.mkdir(parents=True)
    for number in range(1, 3):
        kinds = chance.choice((None, CHANGES, frozenset({"rename", "sync", "sync_dir"})))
        code = None if chance.random() < 0.7 else chance.choice((errno.ENOSPC, errno.EIO, errno.EMFILE))
        fault = Fault(chance.randrange(1, 900 if kinds is None else 250), errno=code, kinds=kinds)
        env = FaultEnv(str(place), fault if chance.random() < 0.9 else None)
        run = Run(env, place, seed * 10 + number)
        run.go()
        if chance.random() < 0.3:  # killed, and the next process finds what it left
            run.attempted.update({queue: max(at, known.get(queue, 0)) for queue, at in run.attempted.items()})
            known = check(place, {**known, **run.acknowledged}, run.attempted)
            continue
        place = folder / str(number)
        env.survivor(str(place), seed)
        known = check(place, {**known, **run.acknowledged}, run.attempted)


@pytest.mark.parametrize("part", range(2))
def test_crashes(tmp_path: Path, part: int) -> None:
    crash_all(tmp_path, range(part, SEEDS, 2))


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("part", range(2))
def test_many_crashes(tmp_path: Path, part: int) -> None:
    crash_all(tmp_path, range(SEEDS + part, SEEDS_SLOW, 2))


def crash_all(folder: Path, seeds: range) -> None:
    for seed in seeds:
        try:
            crash(folder / str(seed), seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def committing(place: Path, fault: Fault | None) -> FaultEnv:
    """Commits offset 3 after 1 and 2, until the fault occurs."""
    place.mkdir()
    for offset in (1, 2):
        ConsumerOffsetManager(place).commit_offset("G", "orders", 0, offset)
    env = FaultEnv(str(place), fault)
    try:
        ConsumerOffsetManager(place, env=env).commit_offset("G", "orders", 0, 3)
    except (Killed, LogdexError):
        assert fault is not None
    env.release()
    return env


@pytest.mark.parametrize("code", [None, errno.EIO])
def test_a_fault_at_each_call_of_a_commit(tmp_path: Path, code: int | None) -> None:
    """The file or its backup has the offset that was acknowledged, or the one after it."""
    calls = committing(tmp_path / "whole", None).count()
    assert calls > 5
    for at in range(1, calls + 1):
        env = committing(tmp_path / str(at), Fault(at, errno=code))
        env.survivor(str(tmp_path / f"cut-{at}"), at)
        for left in (tmp_path / str(at), tmp_path / f"cut-{at}"):
            known = ConsumerOffsetManager(left).query_offset("G", "orders", 0)
            assert known in (2, 3)
            ConsumerOffsetManager(left).commit_offset("G", "orders", 1, 9)
            assert ConsumerOffsetManager(left).query_offsets("G", "orders") == {0: known, 1: 9}
