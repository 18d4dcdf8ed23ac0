"""--grep and --where on rows of both formats."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.cli.rows.row_filter import RowFilter
from logdex.cli.rows.shape import RowShape
from logdex.cli.views.kafka.records import RECORDS
from logdex.cli.views.rocketmq.messages import MESSAGES, MessageRow
from logdex.errors import UsageError
from logdex.frames.conditions import Condition
from logdex.kafka.batch.record import Record
from logdex.testing.kafka_strategies import records
from logdex.testing.store_builder import make_message

PARTITION: Any = SimpleNamespace(topic="orders", partition=3)
RECORD = (
    PARTITION,
    Record(b"k-1\xff", b"some (text)", 1_700_000_000_000, (("trace", b"17"), ("none", None)), offset=7),
)
STORED = make_message(b"orders", queue_id=2, body=b"hi", properties=[(b"KEYS", b"a b"), (b"TAGS", b"T"), (b"n", b"9")])
MESSAGE = MessageRow(STORED, 99, STORED.body)


def passes(row: Any, grep: str | None = None, *where: str) -> bool:
    shape: RowShape[Any] = MESSAGES if isinstance(row, MessageRow) else RECORDS
    return RowFilter(shape, grep, where).passes(row)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        *(("e (t", True), ("k-1", True), ("trace=1", True), ("/^k-[0-9]/", True), ("/TEXT/", False)),
        *(("/(?i)TEXT/", True), ("none=", True), ("nowhere", False), ("/", False), ("\udcff", True), ("//", True)),
    ],
)
def test_grep(text: str, holds: bool) -> None:
    assert passes(RECORD, text) is holds


def test_grep_finds_keys_tags_and_properties_of_messages() -> None:
    assert all(passes(MESSAGE, text) for text in ("hi", "KEYS=a", "TAGS=T", "n=9"))
    assert not passes(MESSAGE, "orders")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("offset = 7", True),
        ("offset==7", True),
        ("offset > 7", False),
        ("offset <> 7", False),
        ("offset < 99999999999999999999", True),
        ("timestamp_ms >= 2023-11-14T22:13:20Z", True),
        ("timestamp_ms < 1700000000000", False),
        ("topic = orders", True),
        ("topic = 'orders'", True),
        ('topic != "orders"', False),
        ("is_control = false", True),
        (r"key = k-1\xff", True),
        ("value_text = some (text)", True),
        ("headers.trace = 17", True),
        ("headers.trace > 9", True),
        ("headers.trace > x", False),
        ("headers.none = null", True),
        ("headers.other = null", True),
        ("headers.trace != null", True),
        ("headers.none > 1", False),
        ("headers.none != 1", True),
        ("value = null", False),
        ("value = ''", False),
    ],
)
def test_where(text: str, holds: bool) -> None:
    assert passes(RECORD, None, text) is holds


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        *(("keys = b", True), ("keys = c", False), ("keys != b", False), ("keys != c", True), ("tags = T", True)),
        *(("unique_key = null", True), ("properties.n >= 9", True), ("body = hi", True), ("queue_id = 2", True)),
    ],
)
def test_where_of_messages(text: str, holds: bool) -> None:
    assert passes(MESSAGE, None, text) is holds


def test_all_must_hold() -> None:
    assert passes(RECORD, "text", "offset = 7", "partition = 3")
    assert not passes(RECORD, "text", "offset = 7", "partition = 4")
    assert not passes(RECORD, "nowhere", "offset = 7")


@pytest.mark.parametrize(
    ("grep", "where", "told"),
    [
        ("/(/", [], "no regular expression"),
        (None, ["headers = 1"], "no field 'headers'"),
        (None, ["offset"], "is no comparison"),
        (None, ["= 7"], "is no comparison"),
        (None, ["ofset = 7"], "no field 'ofset'"),
        (None, ["offset = x"], "is a number"),
        (None, ["offset = 1.5"], "is a number"),
        (None, ["is_control = 1"], "is true or false"),
        (None, ["timestamp_ms > yesterday"], "is no time"),
    ],
)
def test_what_is_no_filter_is_a_usage_error(grep: str | None, where: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        RowFilter(RECORDS, grep, where)


def test_conditions_are_those_that_a_read_plan_can_use() -> None:
    where = ["offset >= 5", "topic = orders", "key = k", "value = x", "partition != 3", "key = a\\b"]
    where.append("offset < 1" + 30 * "0")
    assert RowFilter(RECORDS, None, where).conditions().all == (
        Condition("offset", ">=", 5),
        Condition("topic", "=", "orders"),
        Condition("key", "=", b"k"),
    )


@given(st.text(max_size=20), st.text(max_size=20), records(), st.sampled_from(["=", "!=", "<", ">="]))
def test_any_text_is_a_filter_or_a_usage_error(grep: str, value: str, record: Record, operation: str) -> None:
    for field in (*RECORDS.names, "headers.a"):
        try:
            wanted = RowFilter(RECORDS, grep, [f"{field} {operation} {value}"])
        except UsageError:
            continue
        wanted.passes((PARTITION, record))
        wanted.conditions()
