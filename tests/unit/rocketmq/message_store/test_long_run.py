"""Everything at once on one store, for a long time: threads put and consume, one queries by key,
another process follows, expired files are removed, `verify` looks. Nothing is lost, doubled, or out
of order per queue.

LOGDEX_SOAK_SECONDS says for how long; 3600 is what a release is given."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.rocketmq import Consumer, Message, MessageStore, StoreConfig
from logdex.rocketmq.verify import verify
from tests.interop.soak import SECONDS, Beside

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 1 << 20,
    "mapped_file_size_consume_queue": 20 * 1000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}
QUEUES, MEMBERS = 4, 2
KEPT_S = max(SECONDS / 4, 15)
"""How old a file becomes. Readers that fell behind by so much would miss messages."""

FOLLOWER = """
import sys
from pathlib import Path
from typing import Any
from logdex.rocketmq import Consumer, LocalFileOffsetStore

root, over = Path(sys.argv[1]), Path(sys.argv[2])
found = {}
offsets = LocalFileOffsetStore(sys.argv[3])
with Consumer(root, "follower", "orders", mode="broadcasting", offset_store=offsets) as consumer:
    while True:
        was_over = over.exists()
        messages = consumer.poll(1000, 0.2)
        for message in messages:
            expected = found.get(message.queue_id, 0)
            assert int(message.body) == expected == message.queue_offset, (message.queue_id, message.body, expected)
            found[message.queue_id] = expected + 1
        if was_over and not messages:
            break
print(sorted(found.items()))
"""


class Work:
    """The work on one store, and what was put and consumed so far, by queue."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.put_counts = [0] * QUEUES
        self.consumed = [0] * QUEUES
        self.removed = 0
        self._lock = threading.Lock()
        self._chance = random.Random(1)
        self.members = [Consumer(store, "billing", "orders", rebalance_interval_s=0.0) for _ in range(MEMBERS)]

    def put(self, queue_id: int) -> None:
        """Puts some messages one by one, as a batch, or as columns. Their bodies are their
        numbers."""
        start, count = self.put_counts[queue_id], self._chance.randrange(1, 150)
        numbers = range(start, start + count)
        keys = [f"k{queue_id}-{number}" for number in numbers]
        way = self._chance.randrange(3)
        if way == 0:
            columns = {"topic": ["orders"] * count, "queue_id": [queue_id] * count, "keys": keys}
            bodies = [b"%d" % number for number in numbers]
            assert self.store.put_columns(pa.table({**columns, "body": bodies})).is_stored
        else:
            made = [
                Message("orders", b"%d" % n, keys=key, queue_id=queue_id) for n, key in zip(numbers, keys, strict=True)
            ]
            if way == 1:
                assert self.store.put_messages(made).is_stored
            else:
                assert all(self.store.put_message(message).is_stored for message in made)
        self.put_counts[queue_id] += count

    def consume(self, member: int) -> None:
        """Reads what there is, and commits."""
        consumer = self.members[member]
        while messages := consumer.poll(300):
            with self._lock:
                for message in messages:
                    expected = self.consumed[message.queue_id]
                    assert (int(message.body), message.queue_offset) == (expected, expected)
                    self.consumed[message.queue_id] += 1
            consumer.commit()

    def query(self) -> None:
        """Looks for messages that were put lately."""
        for queue_id in range(QUEUES):
            end = self.put_counts[queue_id]
            if end:
                number = self._chance.randrange(max(end - 300, 0), end)
                found = self.store.query_message("orders", f"k{queue_id}-{number}")
                assert found.complete
                assert [(each.queue_id, each.body) for each in found.messages] == [(queue_id, b"%d" % number)]

    def expire(self) -> None:
        """Removes files that no reader needs any more."""
        self.removed += len(self.store.delete_expired(hours=KEPT_S / 3600).commit_log_files)

    def check(self) -> None:
        """Runs `verify` beside it all."""
        report = verify(self.store.path, StoreConfig(**SIZES))
        assert [str(finding) for finding in report.findings] == []


@pytest.mark.slow
@pytest.mark.live_writer
@pytest.mark.timeout(2 * SECONDS + 1800)
def test_long_run(tmp_path: Path) -> None:
    root, over = tmp_path / "store", tmp_path / "over"
    with MessageStore.open(root, **SIZES) as store:
        store.create_topic("orders", QUEUES)
        work = Work(store)
        for member in (*work.members, *work.members):
            member.poll()
        assert sorted(queue for member in work.members for queue in member.assignment if queue[0] == b"orders") == [
            (b"orders", queue_id) for queue_id in range(QUEUES)
        ]
        command = [sys.executable, "-c", FOLLOWER, str(root), str(over), str(tmp_path / "offsets.json")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
            looks: dict[str, Callable[[], None]] = {"query": work.query, "expire": work.expire, "verify": work.check}
            looks |= {f"put {queue_id}": partial(work.put, queue_id) for queue_id in range(QUEUES)}
            looks |= {f"consume {member}": partial(work.consume, member) for member in range(MEMBERS)}
            with Beside(looks) as beside:
                threading.Event().wait(SECONDS)
            store.wait_dispatched()
            for number in range(MEMBERS):
                work.consume(number)
            over.touch()
            followed, _ = follower.communicate(timeout=600)
        for each in work.members:
            each.close()
        print(beside.rounds, work.put_counts, work.removed)
        assert not beside.problems, "\n".join([f"{len(beside.problems)} problems", *beside.problems[:20]])
        assert work.consumed == work.put_counts
        assert follower.returncode == 0
        assert followed.strip() == str(list(enumerate(work.put_counts)))
        assert work.removed > 0
        assert [queue.max_offset for queue in store.queues() if queue.topic == b"orders"] == work.put_counts
    assert [str(finding) for finding in verify(str(root), StoreConfig(**SIZES)).findings] == []
