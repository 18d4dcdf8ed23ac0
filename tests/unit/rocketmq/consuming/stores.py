"""Small stores with consumers, for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from tests.unit.rocketmq.message_store.open_stores import open_store


def store_with(path: Path, count: int, topic: str = "orders", **settings: Any) -> MessageStore:
    """A store with numbered messages in the 4 queues of a topic, in turn."""
    store = open_store(path, **settings)
    put_numbers(store, range(count), topic)
    return store


def put_numbers(store: MessageStore, numbers: range, topic: str = "orders") -> None:
    for number in numbers:
        tags = "even" if number % 2 == 0 else "odd"
        assert store.put_message(Message(topic, str(number).encode(), tags=tags, keys=f"k{number}")).is_stored


def consumer(store: MessageStore | Path, group: str = "G", **options: Any) -> Consumer:
    """A consumer that looks at its group at every poll."""
    return Consumer(store, group, options.pop("topic", "orders"), **{"rebalance_interval_s": 0.0, **options})


def numbers(messages: list[StoredMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def read_all(member: Consumer, count: int = 7) -> list[int]:
    """Polls until nothing comes."""
    found: list[int] = []
    while messages := member.poll(count):
        found += numbers(messages)
    return found
