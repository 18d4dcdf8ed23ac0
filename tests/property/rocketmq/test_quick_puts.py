"""The short way of usual messages into the log does what the long way does: the same bytes, places
and refusals."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import LogdexError
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, SIZES, require_sound

QuickPut = Callable[[Message], PutMessageResult | None]
TOPICS = ("orders", b"orders", "заказы", "t" * 127, "t" * 128, "x" * 200)
CHOICES: dict[str, tuple[Any, ...]] = {
    "body": (b"", b"x" * 100, b"x" * 900, b"x" * 1001, bytearray(b"mutable")),
    "tags": (None, "", "a", b"a", "теги", "a\x02b", "\udc02", "\0", "x" * 40_000),
    "keys": ((), "", "k", "k l", ("k", "l"), ["k"], ("",), (b"k", "l"), ("ключ",), {"k"}, b"k", "\udcff", "k\x02"),
    "queue_id": (None, None, 0, 3, True, 4, -1),
    "properties": (None, None, None, {}, {"color": "red"}),
    "delay_level": (0, 0, 0, 0, 2),
    "flag": (0, 0, 0, 7),
    "sys_flag": (0, 0, 0, 4, 0x80),
    "reconsume_times": (0, 0, 0, 3),
    "prepared_transaction_offset": (0, 0, 0, 9),
    "born_timestamp_ms": (None, None, None, NOW_MS - 5),
    "born_host": (None, None, None, "10.0.0.1:9"),
    "store_host": (None, None, None, "[::1]:9"),
    "wait_store_msg_ok": (True, False),
}
OFTEN_PLAIN = 0.7
"""How likely a field has its first value."""


def messages_of(seed: int) -> list[Message]:
    chance = random.Random(seed)
    made = [Message("orders", b"first"), Message("заказы", b"first"), Message(b"orders", b"first")]
    for _ in range(120):
        fields = {
            name: choices[0] if chance.random() < OFTEN_PLAIN else chance.choice(choices)
            for name, choices in CHOICES.items()
        }
        made.append(Message(chance.choice(TOPICS), **fields))
    return made


def put_all(store: MessageStore, messages: list[Message]) -> list[PutMessageResult | str]:
    found: list[PutMessageResult | str] = []
    for message in messages:
        try:
            found.append(store.put_message(message))
        except (UnicodeError, TypeError) as error:
            found.append(type(error).__name__)
        except LogdexError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_both_ways_do_the_same(seed: int, version: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SIZES, "background": False, "max_message_size": 1000, "rocketmq_version": version}
    settings["born_host"] = "[2001:db8::1]:9" if seed % 2 else "10.0.0.1:9"
    settings["flush"] = "sync" if seed % 3 == 0 else "async"
    found, logs, quick = [], [], 0
    for is_quick in (True, False):
        root = tmp_path / str(is_quick)
        with MessageStore.open(root, clock_ms=lambda: NOW_MS, unique_keys=False, **settings) as store:
            if is_quick:
                put = store._quick.put

                def counted(message: Message, put: QuickPut = put) -> PutMessageResult | None:
                    nonlocal quick
                    result = put(message)
                    quick += result is not None
                    return result

                store._quick.put = counted  # type: ignore[method-assign]
            else:
                store._quick.put = lambda message: None  # type: ignore[method-assign]
            found.append(put_all(store, messages_of(seed)))
        logs.append({path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())})
        require_sound(root)
    assert found[0] == found[1]
    assert logs[0] == logs[1]
    assert quick > 5


def test_unique_keys_are_stored_alike(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, background=False, clock_ms=lambda: NOW_MS, **SIZES) as store:
        for _ in range(2):
            assert store.put_message(Message("orders", b"x", tags="t", keys="k", queue_id=0)).is_stored
        assert store._quick.put(Message("orders", b"x", tags="t", keys="k", queue_id=0)) is not None
        store.dispatch()
        found = store.get_message("orders", 0, 0).messages
        keys = [message.unique_key for message in found]
        assert [list(message.properties) for message in found] == [[b"KEYS", b"UNIQ_KEY", b"TAGS"]] * 3
        assert len(set(keys)) == 3
        assert {len(key or b"") for key in keys} == {32}
