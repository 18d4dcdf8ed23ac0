"""Random histories of a `MessageStore` against a few lists: every answer equals theirs after each
operation, opening and loss of derived files, and `verify` finds nothing."""

from __future__ import annotations

import json
import random
import shutil
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.verify import verify
from tests.crash.rocketmq.store_runs import config_of, sizes_of
from tests.directories import contents
from tests.unit.rocketmq.message_store.open_stores import Clock, crash

SEEDS, SEEDS_SLOW, PARTS = 6, 4000, 4
PREPARED, COMMIT, ROLLBACK = 4, 8, 12
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
Queue = tuple[str, int]


@dataclass
class Model:
    """What was put. A queue whose topic was deleted and made again has a new life, which begins at
    offset 0."""

    rows: list[tuple[str, str, int]] = field(default_factory=list)
    """Topic, key and physical offset of each message that a key finds."""
    lives: dict[Queue, list[list[int]]] = field(default_factory=lambda: defaultdict(list))
    """The physical offsets of each life of each queue."""
    alive: set[Queue] = field(default_factory=set)
    """The queues that have their newest life's entries."""
    topics: set[str] | None = None
    """The topics of topics.json; None if there is no such file."""
    halves: dict[int, tuple[str, int, str]] = field(default_factory=dict)
    """Topic, queue id and key of each half message that has not ended, by its physical offset."""
    start: int = 0
    """Where the log begins; what lies before has expired."""

    def put(self, topic: str, queue_id: int, key: str, offset: int, flag: int = 0) -> int:
        """Returns the queue offset."""
        self.topics = (self.topics or set()) | {topic}
        if flag != ROLLBACK:
            self.rows.append((topic, key, offset))
        if flag in (PREPARED, ROLLBACK):
            return 0
        queue = topic, queue_id
        if queue not in self.alive:
            self.alive.add(queue)
            self.lives[queue].append([])
        self.lives[queue][-1].append(offset)
        return len(self.lives[queue][-1]) - 1

    def queues(self) -> dict[Queue, list[int]]:
        return {queue: self.lives[queue][-1] for queue in self.alive}

    def expire(self, start: int) -> None:
        """The log begins at `start` now."""
        self.start = start
        self.rows = [row for row in self.rows if row[2] >= start]
        self.halves = {offset: half for offset, half in self.halves.items() if offset >= start}

    @property
    def queues_with_messages(self) -> set[Queue]:
        """The queues whose newest life has messages that have not expired."""
        return {queue for queue, lives in self.lives.items() if lives and lives[-1][-1] >= self.start}

    def derived_anew(self) -> None:
        """All ConsumeQueues were derived from the log, as by a rebuild: the newest life of every
        queue is there, but for those of deleted topics."""
        system = {HALF, OP}
        known = None if self.topics is None else self.topics | {topic for topic, _ in self.alive} | system
        self.alive |= {queue for queue in self.queues_with_messages if known is None or queue[0] in known}

    def life(self, topic: str, queue_id: int = 0) -> list[int]:
        """The messages of a queue's newest life, if the queue is there."""
        queue = topic, queue_id
        return self.lives[queue][-1] if queue in self.alive else []

    def opened(self) -> None:
        """The topics of all queues are in topics.json."""
        if self.alive:
            self.topics = (self.topics or set()) | {topic for topic, _ in self.alive}

    def delete(self, topic: str) -> None:
        self.alive = {queue for queue in self.alive if queue[0] != topic}
        if self.topics is not None:
            self.topics.discard(topic)


class History:
    """One store and its model."""

    def __init__(self, root: Path, chance: random.Random) -> None:
        self.root, self.chance, self.model = root, chance, Model()
        self.sizes, self.clock, self.turn = sizes_of(chance), Clock(), 0
        self.store = self.open()
        self.is_changed = False

    def open(self) -> MessageStore:
        flush: Any = self.chance.choice(("sync", "async"))
        numbers = {"default_topic_queue_nums": self.chance.choice((4, 6)), **self.sizes}
        return MessageStore.open(
            self.root, flush=flush, background=False, unique_keys=False, clock_ms=self.clock, **numbers
        )

    def step(self) -> None:
        work = [self.put] * 10 + [self.batch] * 2 + [self.columns] * 2 + [self.dispatch] * 3 + [self.check]
        work += [self.half] * 2 + [self.end] * 2
        if self.chance.random() < 0.3:
            work.append(self.expire)
        self.chance.choice([*work, self.store.flush, self.reopen, self.reopen])()

    # -- putting ----------------------------------------------------------------------------------
    def message(self, topic: str, queue_id: int) -> tuple[Message, str]:
        self.turn += 1
        key = f"k{self.turn % 50}"
        body = self.chance.randbytes(self.chance.choice((0, 30, 300)))
        return Message(topic, body, keys=key, tags="a", queue_id=queue_id), key

    def queue(self) -> Queue:
        return self.chance.choice("TUV"), self.chance.randrange(3)

    def put(self) -> None:
        (topic, queue_id), flag = self.queue(), self.chance.choice((0, 0, 0, 0, 4, 8, 12))
        message, key = self.message(topic, queue_id)
        message.sys_flag = flag
        put = self.store.put_message(message)
        assert put.is_stored
        assert put.queue_offset == self.model.put(topic, queue_id, key, put.physical_offset, flag)

    def batch(self) -> None:
        topic, queue_id = self.queue()
        pairs = [self.message(topic, queue_id) for _ in range(self.chance.randint(1, 3))]
        for message, _ in pairs:
            message.body = message.body[:30]
        put = self.store.put_messages([message for message, _ in pairs])
        known = [self.model.put(topic, queue_id, key, at) for (_, key), at in zip(pairs, put.offsets, strict=True)]
        assert put.queue_offset == known[0]

    def columns(self) -> None:
        rows = [(*self.queue(), f"k{self.chance.randrange(50)}") for _ in range(self.chance.randint(1, 9))]
        begin = self.store.max_phy_offset
        names = ("topic", "queue_id", "keys")
        put = self.store.put_columns(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))))
        assert put.msg_num == len(rows)
        at, size = begin, self.sizes["mapped_file_size_commit_log"]
        for topic, queue_id, key in rows:
            least = self.store.look_message_by_offset(put.physical_offset).size_bytes - len(rows[0][2]) + len(key)
            if at % size + least + 8 > size:
                at += size - at % size
            self.model.put(topic, queue_id, key, at)
            at += least
        assert at == self.store.max_phy_offset

    def half(self) -> None:
        topic, queue_id = self.queue()
        message, key = self.message(topic, queue_id)
        put = self.store.put_half(message)
        assert put.is_stored
        self.model.topics = (self.model.topics or set()) | {topic}
        assert put.queue_offset == self.model.put(HALF, 0, key, put.physical_offset)
        self.model.halves[put.physical_offset] = topic, queue_id, key

    def end(self) -> None:
        halves = self.store.pending_transactions()
        assert [half.physical_offset for half in halves] == sorted(self.model.halves)
        if not halves:
            return
        half, commit = self.chance.choice(halves), self.chance.random() < 0.6
        topic, queue_id, key = self.model.halves.pop(half.physical_offset)
        put = self.store.end_transaction(half, commit=commit)
        assert put.is_stored
        if commit:
            assert put.queue_offset == self.model.put(topic, queue_id, key, put.physical_offset, COMMIT)
        self.store.dispatch()
        op = self.store.get_message(OP, 0, len(self.model.life(OP)), 2).messages
        assert [self.model.put(OP, 0, "", each.physical_offset) for each in op] == [each.queue_offset for each in op]
        assert len(op) == 1

    def expire(self) -> None:
        """All files of the log but the newest are removed."""
        gone = self.store.delete_expired(hours=None, disk_ratio=0.0)
        assert (
            gone.min_phy_offset
            == self.store.min_phy_offset
            >= self.store.max_phy_offset - self.sizes["mapped_file_size_commit_log"]
        )
        self.model.expire(gone.min_phy_offset)

    def dispatch(self) -> None:
        self.store.dispatch()

    # -- opening ----------------------------------------------------------------------------------
    def reopen(self) -> None:
        is_clean = self.chance.random() < 0.6
        if is_clean:
            self.store.close()
        else:
            crash(self.store)
        self.harm()
        self.store = self.open()
        assert self.store.load_report.was_clean == is_clean
        if self.store.load_report.queues_from == self.model.start:
            self.model.derived_anew()
        elif not self.is_changed:
            assert self.model.alive >= self.model.queues_with_messages
        self.model.opened()
        self.check()

    def harm(self) -> None:
        """What happens to a store while nobody has it open."""
        kind, queues = self.chance.random(), sorted(self.root.glob("consumequeue/*/*"))
        if kind < 0.12:
            self.remove(self.root / self.chance.choice(("consumequeue", "index", "checkpoint")))
        elif kind < 0.2 and queues:
            self.remove(self.chance.choice(queues))
        elif kind < 0.26 and (files := sorted(self.root.glob(self.chance.choice(("index/*", "consumequeue/*/*/*"))))):
            self.remove(self.chance.choice(files))
        elif kind < 0.3:
            self.remove(self.root / "config")
            self.model.topics = None
        elif kind < 0.55:
            self.delete(self.chance.choice("TUV"))
        for queue in list(self.model.alive - self.model.queues_with_messages):
            if not any(self.root.glob(f"consumequeue/{queue[0]}/{queue[1]}/*")):
                self.model.alive.discard(queue)  # nothing in the log tells of it

    def remove(self, path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)

    def delete(self, topic: str) -> None:
        """As a broker deletes a topic."""
        config = self.root / "config" / "topics.json"
        if config.exists():
            raw = json.loads(config.read_text())
            raw["topicConfigTable"].pop(topic, None)
            config.write_text(json.dumps(raw))
            self.is_changed = True
            self.remove(self.root / "consumequeue" / topic)
            self.model.delete(topic)
            if not self.model.topics:
                self.remove(config.parent)
                self.model.topics = None

    # -- answers ----------------------------------------------------------------------------------
    def check(self) -> None:
        self.store.dispatch()
        store, expected = self.store, self.model.queues()
        assert {(q.topic.decode(), q.queue_id): q.max_offset for q in store.queues() if q.max_offset} == {
            queue: len(offsets) for queue, offsets in expected.items()
        }
        assert [half.physical_offset for half in store.pending_transactions()] == sorted(self.model.halves)
        for (topic, queue_id), offsets in sorted(expected.items()):
            gone = bisect_left(offsets, self.model.start)
            begin = self.chance.randint(gone, len(offsets))
            if begin == len(offsets):
                continue
            found = store.get_message(topic, queue_id, begin, 10_000)
            assert list(found.phy_offsets) == offsets[begin:]
            assert [message.physical_offset for message in found.messages] == offsets[begin:]
        for _ in range(5):
            topic, key = self.chance.choice("TUV"), f"k{self.chance.randrange(50)}"
            answer = store.query_message(topic, key)
            assert answer.complete
            known = [at for name, each, at in self.model.rows if (name, each) == (topic, key)]
            assert [message.physical_offset for message in answer.messages] == known[::-1]

    def finish(self) -> None:
        """The store is sound, and its derived files are those of a rebuild, where that makes the
        same queues."""
        for topic in sorted((self.model.topics or set()) - {topic for topic, _ in self.model.alive} - {HALF, OP}):
            # Nothing tells a topic that was made again and has no messages from one that lost its
            # queues.
            message, key = self.message(topic, 0)
            self.model.put(topic, 0, key, self.store.put_message(message).physical_offset)
        self.check()
        self.store.close()
        config = config_of(self.sizes)
        findings = [str(finding) for finding in verify(str(self.root), config).findings]
        assert not findings, findings
        before = set(self.model.alive)
        self.model.derived_anew()
        if before == self.model.alive and self.model.rows and not self.model.start:
            output = self.root.parent / "rebuilt"
            rebuild(str(self.root), str(output), config, sync=False)
            assert derived(self.root) == derived(output)


def derived(root: Path) -> tuple[dict[str, bytes], list[bytes]]:
    """The ConsumeQueues, and the IndexFiles in the order of their names. An IndexFile that had no
    entry when the store was closed is not named by its first entry."""
    files = contents(root)
    queues = {name: data for name, data in files.items() if name.startswith("consumequeue/")}
    return queues, [files[name] for name in sorted(files) if name.startswith("index/")]


def run(folder: Path, seed: int) -> None:
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    history = History(folder / "store", chance)
    for _ in range(chance.randrange(120)):
        history.step()
    history.finish()


def run_all(folder: Path, seeds: range) -> None:
    for seed in seeds:
        try:
            run(folder / str(seed), seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        shutil.rmtree(folder / str(seed))


def test_histories(tmp_path: Path) -> None:
    run_all(tmp_path, range(SEEDS))


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("part", range(PARTS))
def test_many_histories(tmp_path: Path, part: int) -> None:
    run_all(tmp_path, range(SEEDS + part, SEEDS + SEEDS_SLOW, PARTS))
