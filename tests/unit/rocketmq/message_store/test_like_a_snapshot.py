"""An open store and a snapshot of its directory give the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.rocketmq import Message, MessageStore, StoreSnapshot
from logdex.rocketmq.columns.message_arrow import SCHEMA, messages_to_batch
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.read.results import GetMessageStatus
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, SIZES, open_store

COUNT = 40
QUEUE_MAX = COUNT // 2


@pytest.fixture(params=["whole", "trimmed"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[MessageStore, StoreSnapshot]]:
    """A store of two queues, of which everything is dispatched, and a snapshot of it. One has lost
    its first files to retention."""
    with open_store(tmp_path / "store") as store:
        for number in range(COUNT):
            keys = (f"k{number}", "every", f"some-{number % 3}")
            message = Message("orders", bytes(500), tags="ab"[number % 3 // 2], keys=keys, queue_id=number % 2)
            assert store.put_message(message).is_stored
        store.dispatch()
        if request.param == "trimmed":
            assert store.delete_expired(hours=0, now_ms=1 << 50).min_phy_offset > 0
        with StoreSnapshot(tmp_path / "store", **SIZES) as snapshot:
            yield store, snapshot


def test_queues_are_read_alike(both: tuple[MessageStore, StoreSnapshot]) -> None:
    store, snapshot = both
    asked = product(range(-1, QUEUE_MAX + 3), (1, 3, 99), (None, 1, 1500), (None, "a", "b || none", "none"))
    seen = set()
    for offset, count, size_bytes, tags in asked:
        own, other = (each.get_message("orders", 0, offset, count, size_bytes, tags) for each in both)
        assert own == other, (offset, count, size_bytes, tags)
        seen.add(own.status)
    for topic, queue_id in (("orders", 7), ("nothing", 0)):
        assert store.get_message(topic, queue_id, 0) == snapshot.get_message(topic, queue_id, 0)
    assert store.queues() == snapshot.queues()
    assert seen == {
        GetMessageStatus.FOUND,
        GetMessageStatus.NO_MATCHED_MESSAGE,
        GetMessageStatus.OFFSET_TOO_SMALL,
        GetMessageStatus.OFFSET_OVERFLOW_ONE,
        GetMessageStatus.OFFSET_OVERFLOW_BADLY,
    }


def test_columns_of_a_queue_are_read_alike(both: tuple[MessageStore, StoreSnapshot]) -> None:
    """And they are those of the messages that `get_message` reads."""
    store, snapshot = both
    low, seen = store.queues()[0].min_offset, set()
    offsets = (low - 1, low, low + 1, QUEUE_MAX - 1, QUEUE_MAX, QUEUE_MAX + 1)
    for offset, count, tags in product(offsets, (3, 99), (None, "b || none", "none")):
        columns = None if tags is None else ["queue_offset", "tags"]
        own, other = (each.get_columns("orders", 0, offset, count, columns=columns, tags=tags) for each in both)
        assert own == other, (offset, count, tags, columns)
        found = store.get_message("orders", 0, offset, max(own.table.num_rows, 1), tags=tags)
        rows = messages_to_batch(zip(found.phy_offsets, found.messages, strict=True)).select(columns or SCHEMA.names)
        assert own.table.to_pylist() == rows.to_pylist()
        assert (own.status, own.min_offset, own.max_offset) == (found.status, found.min_offset, found.max_offset)
        assert own.next_begin_offset >= found.next_begin_offset
        seen.add(own.status)
    for topic, queue_id in (("orders", 7), ("nothing", 0)):
        assert store.get_columns(topic, queue_id, 0) == snapshot.get_columns(topic, queue_id, 0)
    for wrong in ({"columns": ["colour"]}, {"max_count": 0}):
        for opened in both:
            with pytest.raises(UsageError):
                opened.get_columns("orders", 0, 0, **wrong)
    assert {GetMessageStatus.FOUND, GetMessageStatus.NO_MATCHED_MESSAGE} < seen


def test_messages_are_looked_up_alike(both: tuple[MessageStore, StoreSnapshot]) -> None:
    store, snapshot = both

    def look(opened: Any, phy_offset: int) -> object:
        """The message, or the kind of the error."""
        try:
            found = opened.look_message_by_offset(phy_offset)
        except (CorruptError, MissingFileError) as error:
            return type(error), str(error)
        assert opened.look_message(MessageId(found.store_host, found.physical_offset)) == found
        return found

    end = store.max_phy_offset
    begins = [message.physical_offset for message in store.scan()]
    for phy_offset in (-1, 0, 1, store.min_phy_offset - 1, *begins, begins[-1] + 1, end, end + 4096, 1 << 40):
        assert look(store, phy_offset) == look(snapshot, phy_offset), phy_offset
    assert look(store, begins[-1]) == [*snapshot.scan()][-1]


@pytest.mark.parametrize("as_broker", [False, True])
def test_keys_are_found_alike(as_broker: bool, both: tuple[MessageStore, StoreSnapshot]) -> None:
    store, _ = both
    last = store.get_message("orders", 1, QUEUE_MAX - 1).messages[0]
    assert last.unique_key is not None
    times = (None, last.store_timestamp_ms - 20, last.store_timestamp_ms)
    keys: tuple[str | bytes, ...] = ("k0", f"k{COUNT - 1}", "every", "some-1", "none", last.unique_key)
    found = 0
    for key, begin_ms, end_ms, most in product(keys, times, times, (None, 2)):
        if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
            continue
        question: dict[str, Any] = {"begin_ms": begin_ms, "end_ms": end_ms, "max": most}
        own, other = (each.query_message("orders", key, **question, broker_semantics=as_broker) for each in both)
        assert own == other, (key, question)
        found += len(own.messages)
    assert found
    own, other = (each.query_message("orders", "b", index_type="T", broker_semantics=as_broker) for each in both)
    assert own == other
    assert own.messages


def test_pages_of_a_query_are_alike(both: tuple[MessageStore, StoreSnapshot]) -> None:
    store, snapshot = both
    cursor, pages = None, 0
    while True:
        own = store.query_message("orders", "every", max=2, cursor=cursor)
        assert own == snapshot.query_message("orders", "every", max=2, cursor=cursor)
        cursor, pages = own.next_cursor, pages + 1
        if cursor is None:
            break
    assert pages > 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"begin_ms": 5, "end_ms": 4}, "exchange them"),
        ({"begin_ms": 1.5}, "begin_ms"),
        ({"max": "9"}, "max"),
        ({"cursor": 5, "broker_semantics": True}, "cursor"),
    ],
)
def test_wrong_questions_are_refused_alike(
    given: dict[str, Any], told: str, both: tuple[MessageStore, StoreSnapshot]
) -> None:
    for opened in both:
        with pytest.raises(UsageError, match=told):
            opened.query_message("orders", "every", **given)


def test_times_lead_to_the_same_offsets(both: tuple[MessageStore, StoreSnapshot]) -> None:
    store, _ = both
    last_ms = store.get_message("orders", 1, QUEUE_MAX - 1).messages[0].store_timestamp_ms
    seen = set()
    for timestamp_ms in (0, NOW_MS, *range(last_ms - 120, last_ms + 3), 1 << 50):
        for queue_id in (0, 1, 7):
            for boundary in ("lower", "upper"):
                own, other = (
                    each.get_offset_in_queue_by_time("orders", queue_id, timestamp_ms, boundary) for each in both
                )
                assert own == other, (queue_id, timestamp_ms, boundary)
                seen.add(own)
    assert len(seen) > 3


def test_boundaries_of_a_time_at_which_several_messages_were_stored(tmp_path: Path) -> None:
    now_ms = [NOW_MS]
    with open_store(tmp_path / "store", clock_ms=lambda: now_ms[0]) as store:
        for now_ms[0] in (NOW_MS, NOW_MS + 10, NOW_MS + 10, NOW_MS + 10, NOW_MS + 20):
            store.put_message(Message("orders", queue_id=0))
        store.dispatch()

        def offsets(timestamp_ms: int) -> tuple[int, int]:
            lower = store.get_offset_in_queue_by_time("orders", 0, timestamp_ms, "lower")
            assert lower == store.get_offset_in_queue_by_time("orders", 0, timestamp_ms)
            return lower, store.get_offset_in_queue_by_time("orders", 0, timestamp_ms, boundary="upper")

        assert offsets(NOW_MS + 10) == (1, 3)
        assert offsets(NOW_MS + 9) == (1, 0)
        assert offsets(NOW_MS + 11) == (4, 3)
        assert offsets(NOW_MS) == (0, 0)
        assert offsets(NOW_MS + 20) == (4, 4)
        assert [store.get_offset_in_queue_by_time("none", 0, NOW_MS, each) for each in ("lower", "upper")] == [0, 0]
