"""Groups whose members join, leave, die and commit at random: every message is handed out at least
once, each queue in order, and none is skipped."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.examples import cases, takes_all
from tests.unit.rocketmq.consuming.stores import consumer
from tests.unit.rocketmq.message_store.open_stores import open_store

SEEDS = [68, *cases((seed for seed in range(120) if seed != 68), 20)]  # 68 once committed an older offset


class Group:
    """Random actions on one group, and what must be true of what its members are handed."""

    def __init__(self, store: MessageStore, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.members: list[Consumer] = []
        self.put: dict[int, int] = defaultdict(int)
        """How many messages each queue has."""
        self.committed: dict[int, int] = defaultdict(int)
        self.handed: dict[int, int] = defaultdict(int)
        """How many messages of each queue were handed out at least once."""
        self.next: dict[tuple[int, int], int] = {}
        """The offset that a member must be handed next, by member and queue."""
        self.queues = chance.randint(1, 5)
        store.create_topic("orders", self.queues)

    def step(self) -> None:
        actions = [self.puts] * 3 + [self.poll] * 6 + [self.commit] * 2 + [self.join, self.leave, self.die]
        if self.queues < 7:
            actions += [self.grow] * (self.chance.random() < 0.1)
        self.chance.choice(actions)()

    def puts(self) -> None:
        for _ in range(self.chance.randint(1, 8)):
            queue_id = self.chance.randrange(self.queues)
            self.store.put_message(Message("orders", b"%d" % self.put[queue_id], queue_id=queue_id))
            self.put[queue_id] += 1

    def grow(self) -> None:
        self.queues += 1
        self.store.create_topic("orders", self.queues)

    def join(self) -> None:
        if len(self.members) < 6:
            store = self.store if self.chance.random() < 0.7 else Path(self.store.path)
            if isinstance(store, Path):
                self.store.dispatch()
            self.members.append(consumer(store))

    def pick(self) -> Consumer | None:
        return self.chance.choice(self.members) if self.members else None

    def leave(self) -> None:
        member = self.pick()
        if member is not None:
            if self.chance.random() < 0.5:
                self.commit_of(member)
            self.members.remove(member)
            member.close()

    def die(self) -> None:
        member = self.pick()
        if member is not None:
            self.members.remove(member)
            member._share._membership._lock.release()  # type: ignore[attr-defined]  # as the system does
            member._source.close()

    def poll(self) -> None:
        member = self.pick()
        if member is None:
            return
        had = {queue_id for _, queue_id in member.assignment}
        messages = member.poll(self.chance.randint(1, 9))
        has = {queue_id for topic, queue_id in member.assignment if topic == b"orders"}
        assert all(not has & {each for _, each in other.assignment} for other in self.members if other is not member)
        for queue_id in has - had:
            self.next[id(member), queue_id] = self.committed[queue_id]
        for message in messages:
            queue_id = message.queue_id
            assert message.queue_offset == self.next[id(member), queue_id]
            assert message.body == b"%d" % message.queue_offset
            self.next[id(member), queue_id] += 1
            assert message.queue_offset <= self.handed[queue_id]
            self.handed[queue_id] = max(self.handed[queue_id], message.queue_offset + 1)

    def commit(self) -> None:
        member = self.pick()
        if member is not None:
            self.commit_of(member)

    def commit_of(self, member: Consumer) -> None:
        member.commit()
        for topic, queue_id in member.assignment:
            if topic == b"orders":
                assert self.next[id(member), queue_id] >= self.committed[queue_id]
                self.committed[queue_id] = self.next[id(member), queue_id]
        found = ConsumerOffsetManager(self.store.path).query_offsets("G", "orders")
        assert {queue_id: at for queue_id, at in self.committed.items() if at} == {
            queue_id: at for queue_id, at in found.items() if at
        }

    def finish(self) -> None:
        """What was not committed comes to the last member, whoever had it before."""
        for _ in range(len(self.members)):
            self.die()
        self.join()
        for _ in range(200):
            self.poll()
        assert self.handed == {queue_id: count for queue_id, count in self.put.items() if count}
        self.commit_of(self.members[0])
        assert {queue_id: at for queue_id, at in self.committed.items() if at} == dict(self.put)
        self.members[0].close()


@pytest.mark.parametrize("seed", SEEDS)
def test_groups(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with open_store(tmp_path, mapped_file_size_commit_log=1 << 16, mapped_file_size_consume_queue=2000) as store:
        group = Group(store, chance)
        for _ in range(200 if takes_all() else 60):
            group.step()
        group.finish()
