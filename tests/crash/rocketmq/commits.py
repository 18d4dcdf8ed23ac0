"""What a group of consumers has committed, in runs that end in a crash: no committed offset goes
back behind what was acknowledged."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.consuming.membership import Queue
from logdex.rocketmq.message_store.message_store import MessageStore

GROUP, TOPIC = "G", b"T"


@dataclass
class Commits:
    """The next offset of each queue: as far as a commit was acknowledged, and as far as one was
    tried."""

    acknowledged: dict[Queue, int] = field(default_factory=dict)
    attempted: dict[Queue, int] = field(default_factory=dict)

    def consume(self, member: Consumer, chance: random.Random) -> None:
        """Reads some messages as a member of the group, and commits them."""
        member.poll(chance.randint(1, 9))
        wanted = {queue: at for queue, at in member._positions.items() if queue[0] == TOPIC}
        self.attempted.update({queue: max(at, self.attempted.get(queue, 0)) for queue, at in wanted.items()})
        member.commit()
        self.acknowledged.update(wanted)

    def check(self, store: MessageStore) -> None:
        """Requires that what was acknowledged is committed, and nothing that was not tried or is
        ahead of its queue. What is there counts as acknowledged from now on."""
        found = ConsumerOffsetManager(store.path).query_offsets(GROUP, TOPIC)
        committed = {(TOPIC, queue_id): at for queue_id, at in found.items()}
        ends = {(each.topic, each.queue_id): each.max_offset for each in store.queues()}
        for queue in committed.keys() | self.acknowledged.keys() | self.attempted.keys():
            at, known = committed.get(queue, 0), self.acknowledged.get(queue, 0)
            assert known <= at <= max(self.attempted.get(queue, 0), known), queue
            assert at <= ends.get(queue, 0), queue
        self.acknowledged, self.attempted = committed, dict(committed)
