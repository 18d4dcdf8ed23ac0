"""The short way of usual queries by key returns what the long way returns, in sound and in harmed
stores."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from logdex.errors import LogdexError
from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.read.keys import quick_query
from logdex.rocketmq.read.keys.key_question import KeyQuestion
from logdex.rocketmq.read.keys.key_search import QuerySource
from logdex.rocketmq.read.results import QueryMessageResult
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.examples import cases
from tests.unit.rocketmq.message_store.open_stores import SIZES
from tests.unit.rocketmq.small_stores import CONFIG, START_MS, build, message, opened

KEYS = ("Aa", "BB", "Aa BB", "hot", "hot hot", "k l", "k", "", "ключ")  # Aa and BB have one hash
ASKED = ("Aa", "BB", "hot", "k", "l", "ключ", "none", *(f"u-{number}" for number in range(0, 60, 7)))
CONFIGS = (CONFIG, replace(CONFIG, max_hash_slot_num=64, max_index_num=200))


def messages_of(chance: random.Random) -> list[StoredMessage]:
    return [
        message(
            number,
            keys=chance.choice(KEYS),
            tag=chance.choice(("", "A", "Aa")),
            unique=chance.random() < 0.7,
            sys_flag=chance.choice((0, 0, 0, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK)),
        )
        for number in range(chance.randint(1, 60))
    ]


def answers(store: StoreSnapshot | MessageStore) -> list[object]:
    found: list[object] = []
    more: tuple[dict[str, Any], ...] = ({}, {"max": 1}, {"max": 3}, {"index_type": "T"}, {"begin_ms": START_MS + 9_000})
    for topic in ("TopicA", "TopicB"):
        for key in ASKED:
            for asked in more:
                try:
                    found.append(repr(store.query_message(topic, key, **asked)))
                except LogdexError as error:
                    found.append(repr(error))
    return found


def both_ways(store: StoreSnapshot | MessageStore) -> int:
    """Holds the two ways against each other. Returns how many queries the short one answered."""
    count = 0

    def counted(source: QuerySource, question: KeyQuestion, max_num: int | None) -> QueryMessageResult | None:
        nonlocal count
        answer = quick_query.query_quick(source, question, max_num)
        count += answer is not None
        return answer

    with patch("logdex.rocketmq.read.query.query_quick", counted):
        quick = answers(store)
    with patch("logdex.rocketmq.read.query.query_quick", lambda *_: None):
        assert quick == answers(store)
    return count


def _flip(root: Path, folder: str, chance: random.Random) -> None:
    path = chance.choice(sorted((root / folder).iterdir()))
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice((1, 3, 20))):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _remove(root: Path, folder: str, chance: random.Random) -> None:
    paths = sorted((root / folder).iterdir())
    if len(paths) > 1:
        chance.choice(paths[:1] if folder == "commitlog" else paths).unlink()


HARMS: tuple[Callable[[Path, random.Random], None], ...] = (
    lambda root, chance: None,
    lambda root, chance: _flip(root, "index", chance),
    lambda root, chance: _flip(root, "commitlog", chance),
    lambda root, chance: _remove(root, "index", chance),
    lambda root, chance: _remove(root, "commitlog", chance),
)


@pytest.mark.parametrize("seed", cases(range(200), 100))
def test_both_ways_return_the_same(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    config = chance.choice(CONFIGS)
    root = build(tmp_path / "s", messages_of(chance), config)
    if (root / "index").is_dir() and any((root / "index").iterdir()):
        HARMS[seed % len(HARMS)](root, chance)
    with opened(root, config) as store:
        both_ways(store)


def test_usual_queries_are_answered_the_short_way(tmp_path: Path) -> None:
    sound = [message(number, keys=f"k{number}") for number in range(40)]
    with opened(build(tmp_path / "s", sound, CONFIGS[1]), CONFIGS[1]) as store:
        assert both_ways(store) > 0
    with MessageStore.open(tmp_path / "live", background=False, **SIZES) as live:
        for number in range(40):
            live.put_message(Message("TopicA", b"x", keys=f"u-{number}"))
            live.wait_dispatched()
            if number % 8 == 7:
                assert both_ways(live) > 0
        live.put_message(Message("TopicA", b"x", keys="u-7"))  # not dispatched
        assert both_ways(live) == 0
