"""Seeded runs of a `MessageStore` that end in a kill, a power cut or an error, and what must be
true of what is left."""

from __future__ import annotations

import random
from ast import literal_eval
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import SYS_FLAG_COMMIT, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.message.own_topics import HALF_TOPIC_NAME, OP_TOPIC_NAME
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.crash.rocketmq.commits import GROUP, TOPIC, Commits

NOW_MS = 1_700_000_000_000
_MAP = pa.map_(pa.string(), pa.string())
Actions = Mapping[str, int]
"""Methods of `Run`, and how often each is taken."""
FIRST_ACTIONS = {"put": 12, "batch": 3, "dispatch": 3, "flush": 1}
ALL_ACTIONS = {**FIRST_ACTIONS, "columns": 2, "delayed": 2, "transaction": 2, "half": 2, "end": 2, "create_topic": 1}
WITH_RETENTION = {**ALL_ACTIONS, "expire": 1, "consume": 3}
"""What else changes a store is one more method, which keeps `Model` right, and one more line here;
what must be true of it afterwards belongs into `check_left`."""
DELAYS = {**FIRST_ACTIONS, "delayed": 6, "deliver": 3}
Identity = tuple[bytes, int, bytes, bytes]
"""Topic, queue id, body and properties of a message."""


@dataclass
class Model:
    """What was put, in order. The first `kept` messages must be there after a crash, but for the
    first `expired`, which may have been removed; what is there is a beginning of `puts`, without
    some of the expired."""

    puts: list[tuple[Identity, bytes]] = field(default_factory=list)
    """Each message with its key, or with no bytes if it has none."""
    kept: int = 0
    expired: int = 0
    turn: int = 0
    commits: Commits = field(default_factory=Commits)


def sizes_of(chance: random.Random) -> dict[str, Any]:
    return {
        "mapped_file_size_commit_log": chance.choice((1024, 2048, 6000)),
        "mapped_file_size_consume_queue": chance.choice((40, 100, 400)),
        "max_hash_slot_num": chance.choice((3, 13)),
        "max_index_num": chance.choice((4, 12, 60)),
        "rocketmq_version": chance.choice(("5.5.0", "5.5.0", "5.3.3", "4.9.7")),
    }


def config_of(sizes: dict[str, Any]) -> StoreConfig:
    numbers: dict[str, Any] = {name: value for name, value in sizes.items() if isinstance(value, int)}
    return StoreConfig(**numbers, dialect=Dialect.of(sizes["rocketmq_version"]))


class Clock:
    """Mostly stands still or moves on, at times goes back."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self.now_ms = chance, NOW_MS

    def __call__(self) -> int:
        self.now_ms += self._chance.choice((0, 0, 0, 1, 700, 5000, -2500))
        return self.now_ms


class Run:
    """Random actions on one store. `model` is right before and after each, and allows for both
    while one is under way."""

    def __init__(
        self, store: MessageStore, model: Model, chance: random.Random, *, is_sync: bool, actions: Actions | None = None
    ) -> None:
        self.store, self.model, self.chance, self.is_sync = store, model, chance, is_sync
        self.refused: list[PutMessageStatus] = []
        self._member: Consumer | None = None
        self._actions = [name for name, weight in (actions or ALL_ACTIONS).items() for _ in range(weight)]

    def step(self) -> None:
        getattr(self, self.chance.choice(self._actions))()

    def message(self, topic: str, queue_id: int) -> tuple[Message, tuple[Identity, bytes]]:
        model, chance = self.model, self.chance
        model.turn += 1
        key = f"k{model.turn}"
        body = chance.randbytes(chance.choice((0, 7, 60, 500))).replace(b"\0", b"0")
        pairs = {"KEYS": f"{key} all" if chance.random() < 0.5 else key, "TAGS": chance.choice(("a", "b"))}
        if chance.random() < 0.2:
            pairs["note"] = "x" * chance.choice((1, 300))
        flag = 0 if chance.random() < 0.8 else chance.choice((4, 8, 12))
        message = Message(topic, body, properties=pairs, queue_id=queue_id, sys_flag=flag)
        properties = repr(sorted(pairs.items())).encode()
        return message, ((topic.encode(), queue_id, body, properties), key.encode())

    def put(self) -> None:
        message, known = self.message(self.chance.choice(("T", "U")), self.chance.randrange(2))
        self.put_and_know(message, known)

    @contextmanager
    def adding(self, known: list[tuple[Identity, bytes]]) -> Iterator[None]:
        """Messages are being put. After an error they may be there, unless the log still ends where
        it ended."""
        end = self.store.max_phy_offset
        self.model.puts += known
        try:
            yield
        except LogdexError:
            if self.store.max_phy_offset == end:
                del self.model.puts[-len(known) :]
            raise

    def put_and_know(self, message: Message, known: tuple[Identity, bytes]) -> None:
        with self.adding([known]):
            put = self.store.put_message(message)
        if not put.is_stored:
            self.refused.append(put.status)
            self.model.puts.remove(known)
        elif self.is_sync:
            self.model.kept = len(self.model.puts)

    def delayed(self) -> None:
        """A message for later delivery: it lies in the queue of its delay level."""
        message, ((topic, queue_id, body, _), key) = self.message("T", self.chance.randrange(2))
        message.delay_level, message.sys_flag = self.chance.randint(1, 3), 0
        pairs = {name: str(value) for name, value in (message.properties or {}).items()}
        pairs |= {"DELAY": str(message.delay_level), "REAL_TOPIC": topic.decode(), "REAL_QID": str(queue_id)}
        properties = repr(sorted(pairs.items())).encode()
        self.put_and_know(message, ((b"SCHEDULE_TOPIC_XXXX", message.delay_level - 1, body, properties), key))

    def transaction(self) -> None:
        """A PREPARED message, and perhaps another one that commits it or rolls it back."""
        message, known = self.message("T", self.chance.randrange(2))
        message.sys_flag = SYS_FLAG_PREPARED
        self.put_and_know(message, known)
        if self.chance.random() < 0.7:
            flag = self.chance.choice((SYS_FLAG_COMMIT, SYS_FLAG_ROLLBACK))
            at = max(self.store.max_phy_offset - 100, 0)
            message, known = self.message("T", self.chance.randrange(2))
            self.put_and_know(replace(message, sys_flag=flag, prepared_transaction_offset=at), known)

    def half(self) -> None:
        """A half message, which waits for its end."""
        message, ((topic, queue_id, body, _), key) = self.message("T", self.chance.randrange(2))
        message.sys_flag = 0
        pairs = {name: str(value) for name, value in (message.properties or {}).items()}
        pairs |= {"TRAN_MSG": "true", "PGROUP": "G", "REAL_TOPIC": topic.decode(), "REAL_QID": str(queue_id)}
        known: tuple[Identity, bytes] = ((HALF_TOPIC_NAME, 0, body, repr(sorted(pairs.items())).encode()), key)
        with self.adding([known]):
            put = self.store.put_half(message, "G")
        if not put.is_stored:
            self.refused.append(put.status)
            self.model.puts.remove(known)
        elif self.is_sync:
            self.model.kept = len(self.model.puts)

    def end(self) -> None:
        """Commits a half message or rolls it back: the message in its own place, then an op
        message."""
        halves = self.store.pending_transactions()
        if not halves:
            return
        half, commit = self.chance.choice(halves), self.chance.random() < 0.6
        known = ends_of(half, self.store.core.config.dialect)[0 if commit else 1 :]
        with self.adding(known):
            put = self.store.end_transaction(half, commit=commit)
        if not put.is_stored:
            self.refused.append(put.status)
            del self.model.puts[-len(known) :]
            return
        if self.store.max_phy_offset == put.physical_offset + put.size_bytes and commit:
            self.refused.append(PutMessageStatus.UNKNOWN_ERROR)  # the op message
            self.model.puts.pop()
        if self.is_sync:
            self.model.kept = len(self.model.puts)

    def columns(self) -> None:
        """Rows of an Arrow table, of several topics and queues."""
        rows = [
            self.message(self.chance.choice("TU"), self.chance.randrange(2)) for _ in range(self.chance.randint(1, 9))
        ]
        table = {
            "topic": [message.topic for message, _ in rows],
            "queue_id": [message.queue_id for message, _ in rows],
            "body": [message.body for message, _ in rows],
            "properties": [list((message.properties or {}).items()) for message, _ in rows],
        }
        known = [each for _, each in rows]
        types = pa.schema({"topic": pa.string(), "queue_id": pa.int32(), "body": pa.binary(), "properties": _MAP})
        with self.adding(known):
            put = self.store.put_columns(pa.table(table, types))
        stored = put.msg_num if put.is_stored or put.status is PutMessageStatus.CREATE_MAPPED_FILE_FAILED else 0
        del self.model.puts[len(self.model.puts) - len(known) + stored :]
        if not put.is_stored:
            self.refused.append(put.status)
        elif self.is_sync:
            self.model.kept = len(self.model.puts)

    def expire(self) -> None:
        """Removes all files but the newest."""
        self.model.expired = len(self.model.puts)
        self.store.delete_expired(disk_ratio=0.0)

    def consume(self) -> None:
        """Reads some messages as a member of a group, and commits them."""
        if self._member is None:
            self._member = Consumer(self.store, GROUP, TOPIC, rebalance_interval_s=0.0)
        self.model.commits.consume(self._member, self.chance)

    def leave(self) -> None:
        """Leaves the group."""
        if self._member is not None:
            self._member.close()

    def create_topic(self) -> None:
        self.store.create_topic(self.chance.choice("TUV"), self.chance.randint(2, 5))

    def batch(self) -> None:
        topic, queue_id = self.chance.choice(("T", "U")), self.chance.randrange(2)
        pairs = [self.message(topic, queue_id) for _ in range(self.chance.randint(1, 3))]
        for message, _ in pairs:
            message.sys_flag, message.body = 0, message.body[:60]
        known = [((each[0], each[1], each[2][:60], each[3]), key) for _, (each, key) in pairs]
        with self.adding(known):
            put = self.store.put_messages([message for message, _ in pairs])
        if not put.is_stored:
            self.refused.append(put.status)
            del self.model.puts[-len(known) :]
        elif self.is_sync:
            self.model.kept = len(self.model.puts)

    def deliver(self) -> None:
        """Delivers all delayed messages, each level from where the store says that it is. A level
        of which a message is refused stops there, and the next one goes on."""
        self.store.dispatch()
        levels = {
            level: [
                ((each["REAL_TOPIC"].encode(), int(each["REAL_QID"]), body, properties), key)
                for (_, _, body, properties), key in delayed_of(self.model, level)[start:]
                for each in [dict(literal_eval(properties.decode()))]
            ]
            for level, (start, end) in self.store.delay_progress().items()
            if start < end
        }
        known = [each for delivered in levels.values() for each in delivered]
        if known:
            with self.adding(known):
                count = self.store.deliver_due(1 << 60)
            left = {level: end - start for level, (start, end) in self.store.delay_progress().items()}
            del self.model.puts[-len(known) :]
            self.model.puts += [
                each for level, all_of in levels.items() for each in all_of[: len(all_of) - left[level]]
            ]
            assert len(known) - sum(left.values()) == count

    def dispatch(self) -> None:
        self.store.dispatch()

    def flush(self) -> None:
        self.store.flush()
        self.model.kept = len(self.model.puts)


def delayed_of(model: Model, level: int) -> list[tuple[Identity, bytes]]:
    """The messages of a delay level's queue."""
    return [each for each in model.puts if each[0][:2] == (b"SCHEDULE_TOPIC_XXXX", level - 1)]


def ends_of(half: StoredMessage, dialect: Dialect) -> list[tuple[Identity, bytes]]:
    """What commits a half message, and the op message that notes that it has ended."""
    pairs = {name.decode(): value.decode() for name, value in half.properties.items()}
    topic, queue_id = pairs["REAL_TOPIC"].encode(), int(pairs["REAL_QID"])
    if dialect.commit_drops_place:
        del pairs["REAL_TOPIC"], pairs["REAL_QID"]
    committed: Identity = (topic, queue_id, half.body, repr(sorted(pairs.items())).encode())
    body = b"%d," if dialect.transaction_ops_are_lists else b"%d"
    op: Identity = (OP_TOPIC_NAME, 0, body % half.queue_offset, b"[('TAGS', 'd'), ('WAIT', 'true')]")
    return [(committed, pairs["KEYS"].split()[0].encode()), (op, b"")]


def open_store(place: Path, sizes: dict[str, Any], chance: random.Random, env: Env, flush: Any) -> MessageStore:
    return MessageStore.open(
        place, env=env, flush=flush, background=False, unique_keys=False, clock_ms=Clock(chance), **sizes
    )


def check_left(place: Path, sizes: dict[str, Any], model: Model, chance: random.Random) -> None:
    """Opens the store, and requires all that was acknowledged, nothing else, and no finding. The
    model is then what is there."""
    with open_store(place, sizes, chance, DEFAULT_ENV, "async") as store:
        found = check_log(place, sizes, model)
        check_queues(store, found, is_whole=not model.expired)
        for (_, topic), (message, key) in found.items():
            if message.transaction_type != 12 and key:
                rows = store.query_message(topic, key)
                same = [at for (at, each), (_, its_key) in found.items() if (each, its_key) == (topic, key)]
                assert [row.physical_offset for row in rows.messages] == same[::-1]
                assert rows.complete
        ended = {int(at) for message, _ in in_topic(found, OP_TOPIC_NAME) for at in message.body.split(b",") if at}
        pending = [message for message, _ in in_topic(found, HALF_TOPIC_NAME) if message.queue_offset not in ended]
        assert store.pending_transactions() == pending
        elsewhere = {key for known, key in model.puts if known[0] != b"SCHEDULE_TOPIC_XXXX"}
        still = {key for _, key in in_topic(found, b"SCHEDULE_TOPIC_XXXX")}
        for level, (start, _) in store.delay_progress().items():
            passed = [key for _, key in delayed_of(model, level)[:start]]
            assert [key for key in passed if key in still and key not in elsewhere] == []
        model.commits.check(store)
    config = config_of(sizes)
    report = verify(str(place), config)
    assert [str(finding) for finding in report.findings] == []
    model.kept = len(model.puts)


def check_log(place: Path, sizes: dict[str, Any], model: Model) -> dict[tuple[int, bytes], tuple[StoredMessage, bytes]]:
    """Requires that the log is a beginning of what was put, with all that was acknowledged. Cuts
    the model there."""
    with StoreSnapshot(str(place), config=config_of(sizes)) as snapshot:
        messages = list(snapshot.scan())
    found = {}
    gone = gone_of(model, messages)
    end = gone + len(messages)
    assert model.kept <= end
    assert end <= len(model.puts)
    for message, (known, key) in zip(messages, model.puts[gone:], strict=False):
        assert identity_of(message) == known
        found[message.physical_offset, message.topic] = (message, key)
    del model.puts[end:]
    model.expired = min(model.expired, end)
    return found


def gone_of(model: Model, messages: list[StoredMessage]) -> int:
    """How many of the expired messages are no longer there."""
    if not model.expired:
        return 0
    if not messages:
        assert model.kept <= model.expired
        return min(model.expired, len(model.puts))
    found = [identity_of(message) for message in messages]
    # A message that was committed twice is there twice: so all of them are compared.
    for gone in range(min(model.expired, len(model.puts) - len(found)), -1, -1):
        if all(known == each for (known, _), each in zip(model.puts[gone:], found, strict=False)):
            return gone
    raise AssertionError(f"the log is no part of what was put: {found[0]}, …")


def identity_of(message: StoredMessage) -> Identity:
    pairs = sorted((name.decode(), value.decode()) for name, value in message.properties.items())
    return message.topic, message.queue_id, message.body, repr(pairs).encode()


def in_topic(
    found: dict[tuple[int, bytes], tuple[StoredMessage, bytes]], topic: bytes
) -> list[tuple[StoredMessage, bytes]]:
    """The messages of a topic with their keys."""
    return [each for (_, its_topic), each in found.items() if its_topic == topic]


def check_queues(
    store: MessageStore, found: dict[tuple[int, bytes], tuple[StoredMessage, bytes]], *, is_whole: bool
) -> None:
    """Requires that each queue has its messages in order, from offset 0 on if the log
    `is_whole`."""
    queues: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    begins: dict[tuple[bytes, int], int] = {}
    for message, _ in found.values():
        if message.is_queued:
            name = message.topic, message.queue_id
            begin = begins.setdefault(name, 0 if is_whole else message.queue_offset)
            assert message.queue_offset == begin + len(queues[name])
            queues[name].append(message.physical_offset)
    held = {(queue.topic, queue.queue_id): queue for queue in store.queues() if queue.max_offset > queue.min_offset}
    assert held.keys() == queues.keys()
    for (topic, queue_id), offsets in queues.items():
        rows = store.get_message(topic, queue_id, begins[topic, queue_id], 10_000)
        assert list(rows.phy_offsets) == offsets
        assert rows.max_offset == begins[topic, queue_id] + len(offsets)
