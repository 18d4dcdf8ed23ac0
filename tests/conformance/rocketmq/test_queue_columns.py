"""Stores of real brokers: the columns of a queue are the messages that `get_message` reads, whole
or harmed."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from logdex.errors import LogdexError
from logdex.rocketmq.columns.message_arrow import SCHEMA, messages_to_batch
from logdex.rocketmq.read.results import GetMessageStatus, QueueInfo
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conformance.rocketmq.test_store import VARIANTS, open_case
from tests.examples import takes_all

HARMED = "tiny-5.5.0"
SMALL = ["queue_offset", "physical_offset", "tags"]


def by_messages(store: StoreSnapshot, queue: QueueInfo, offset: int, tags: bytes | None) -> tuple[pa.Table, str]:
    """All messages from an offset on, by `get_message`, and the error that ended the read."""
    batches: list[pa.RecordBatch] = []
    while True:
        try:
            page = store.get_message(queue.topic, queue.queue_id, offset, 50, tags=tags)
        except LogdexError as error:
            return pa.Table.from_batches(batches, SCHEMA), str(error)
        batches.append(messages_to_batch(zip(page.phy_offsets, page.messages, strict=True)))
        if page.status in (GetMessageStatus.OFFSET_OVERFLOW_ONE, GetMessageStatus.NO_MESSAGE_IN_QUEUE):
            return pa.Table.from_batches(batches, SCHEMA), ""
        offset = page.next_begin_offset


def by_columns(
    store: StoreSnapshot, queue: QueueInfo, offset: int, tags: bytes | None, chance: random.Random, columns: list[str]
) -> tuple[pa.Table, str]:
    """The same, by `get_columns` with pages of any size."""
    tables, offsets = [pa.schema([SCHEMA.field(name) for name in columns]).empty_table()], [offset]
    while True:
        most = chance.choice((1, 7, 100, 40_000))
        try:
            page = store.get_columns(queue.topic, queue.queue_id, offsets[-1], most, columns=columns, tags=tags)
        except LogdexError as error:
            return pa.concat_tables(tables), str(error)
        assert page.table.num_rows <= most
        assert (page.status is GetMessageStatus.FOUND) == (page.table.num_rows > 0)
        assert (page.min_offset, page.max_offset) == (queue.min_offset, queue.max_offset)
        tables.append(page.table)
        if page.status in (GetMessageStatus.OFFSET_OVERFLOW_ONE, GetMessageStatus.NO_MESSAGE_IN_QUEUE):
            assert all(before < after for before, after in pairwise(offsets))
            return pa.concat_tables(tables), ""
        offsets.append(page.next_begin_offset)


def compare(store: StoreSnapshot, seed: int, queues_max: int) -> int:
    """Compares all queues of a store, or some. Returns the number of rows."""
    chance, rows = random.Random(seed), 0
    for queue in store.queues()[:queues_max]:
        tags = [None, *sorted({each for each in tags_of(store, queue) if each})[:2], b"no such tag"]
        for tag in tags:
            start = chance.choice((queue.min_offset, queue.min_offset, chance.randint(0, queue.max_offset)))
            expected, error = by_messages(store, queue, start, tag)
            columns = chance.choice((SCHEMA.names, ["body", "queue_offset"]))
            found, found_error = by_columns(store, queue, start, tag, chance, columns)
            assert found.to_pylist() == expected.select(columns).to_pylist()
            assert found_error == error
            small, _ = by_columns(store, queue, start, tag, chance, SMALL)
            assert small.slice(0, len(expected)).to_pylist() == expected.select(SMALL).to_pylist()
            rows += found.num_rows
    return rows


def tags_of(store: StoreSnapshot, queue: QueueInfo) -> list[bytes | None]:
    """The tags of some messages of a queue."""
    try:
        return [each.tags for each in store.get_message(queue.topic, queue.queue_id, queue.min_offset, 20).messages]
    except LogdexError:
        return []


@pytest.mark.parametrize(("name", "recovered"), VARIANTS)
def test_columns_are_the_messages(golden_store: Callable[..., Path], name: str, recovered: bool) -> None:
    with open_case(golden_store(name, recovered=recovered), name) as store:
        compare(store, 1, 99 if takes_all() else 4)


@pytest.mark.parametrize("seed", range(60 if takes_all() else 3))
def test_columns_of_a_harmed_store_are_the_messages(golden_copy: Callable[..., Path], seed: int) -> None:
    chance = random.Random(seed)
    root = golden_copy(HARMED)
    parts = [root / "commitlog", root / "consumequeue"]
    files = [path for part in parts for path in sorted(part.rglob("*")) if path.is_file()]
    for _ in range(3):
        path = chance.choice(files)
        data = bytearray(path.read_bytes())
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path.write_bytes(data)
    with open_case(root, HARMED) as store:
        compare(store, seed, 99)
