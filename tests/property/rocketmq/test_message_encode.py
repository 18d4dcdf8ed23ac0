"""What `put_columns` writes through the encode kernel is what `put_message` writes row by row."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from tests.examples import cases
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, SIZES, require_sound

TOPICS = ("orders", "заказы", "t" * 127, "long-" * 40)


FIXED: dict[str, Any] = {"unique_keys": False, "background": False, **SIZES}


def rows_of(seed: int, topics: tuple[str, ...]) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "topic": chance.choice(topics),
            "body": chance.choice((None, chance.randbytes(chance.choice((0, 1, 30, 400))))),
            "queue_id": chance.randrange(4),
            "tags": chance.choice((None, "", "a", "теги")),
            "keys": chance.choice((None, [], ["k"], ["k", "ключ", "k"])),
            "born_timestamp_ms": chance.choice((None, NOW_MS - chance.randrange(9999))),
        }
        for _ in range(chance.choice((1, 40, 90)))
    ]


SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "body": pa.binary(),
        "queue_id": pa.int32(),
        "tags": pa.string(),
        "keys": pa.list_(pa.string()),
        "born_timestamp_ms": pa.int64(),
    }
)


def message_of(row: dict[str, Any]) -> Message:
    """The message that a row is: one without a body has an empty one."""
    return Message(**{**row, "body": row["body"] or b"", "keys": row["keys"] or ()})


def logs(root: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((root / "commitlog").iterdir())}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("version", ["5.5.0", "4.9.7"])
def test_columns_are_written_as_rows_are(seed: int, version: str, tmp_path: Path) -> None:
    rows = rows_of(seed, TOPICS if version == "5.5.0" else TOPICS[:3])
    hosts = {"born_host": "[2001:db8::1]:9" if seed % 2 else "10.0.0.1:9", "store_host": "127.0.0.1:10911"}
    if seed % 3 == 0:
        hosts["store_host"] = "[::1]:10911"
    settings: dict[str, Any] = {**FIXED, **hosts, "rocketmq_version": version}
    one, other = tmp_path / "one", tmp_path / "other"
    with MessageStore.open(one, clock_ms=lambda: NOW_MS, **settings) as store:
        for row in rows:
            assert store.put_message(message_of(row)).is_stored
    with MessageStore.open(other, clock_ms=lambda: NOW_MS, **settings) as store:
        table = pa.Table.from_pylist(rows, SCHEMA)
        half = len(rows) // 2
        for part in (table.slice(0, half), table.slice(half)):
            put = store.put_columns(part)
            assert (put.status, put.msg_num) == (PutMessageStatus.PUT_OK, part.num_rows)
    assert logs(one) == logs(other)
    if version == "5.5.0":
        require_sound(other)


NAMES = ("color", "size", "INNER_NUM", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_OUT_MS")


@pytest.mark.parametrize("seed", cases(range(40), 3))
def test_tables_are_refused_as_rows_are(seed: int, tmp_path: Path) -> None:
    """By the properties of their rows; and a refused table leaves nothing in the log. What is not
    refused is written as the rows are."""
    chance = random.Random(seed)
    rows = [
        {**row, "properties": [(name, "3") for name in NAMES if chance.random() < 0.02] or None}
        for row in rows_of(seed, TOPICS[:3])[: chance.choice((1, 5, 40))]
    ]
    settings: dict[str, Any] = {**FIXED, "rocketmq_version": chance.choice(("5.5.0", "5.5.0", "4.9.7"))}
    one, other = tmp_path / "one", tmp_path / "other"
    with MessageStore.open(one, clock_ms=lambda: NOW_MS, **settings) as store:
        puts = [store.put_message(replace(message_of(row), properties=dict(row["properties"] or ()))) for row in rows]
    with MessageStore.open(other, clock_ms=lambda: NOW_MS, **settings) as store:
        schema = SCHEMA.append(pa.field("properties", pa.map_(pa.string(), pa.string())))
        put = store.put_columns(pa.Table.from_pylist(rows, schema))
        first = next((each for each in puts if not each.is_stored), puts[0])
        assert (put.status, put.remark) == (first.status, first.remark)
        assert put.is_stored or store.max_phy_offset == 0
    assert not put.is_stored or logs(one) == logs(other)
