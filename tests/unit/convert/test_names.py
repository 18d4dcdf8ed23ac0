"""What one format has, as the other carries it: texts that come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.convert.translate.names import (
    RecordFields,
    format_record,
    kafka_topic,
    parse_message_header,
    parse_record,
    readable,
    storable_key,
)

HEADER_NAMES = st.one_of(st.text(st.characters(exclude_categories=["Cs"])), st.binary())


@given(
    st.integers(0, (1 << 63) - 1),
    st.integers(-1, (1 << 63) - 1),
    st.none() | st.binary(),
    st.booleans(),
    st.lists(st.tuples(HEADER_NAMES, st.none() | st.binary()), max_size=4),
)
def test_records_come_back(
    offset: int, time_ms: int, key: bytes | None, is_null: bool, headers: list[tuple[str | bytes, bytes | None]]
) -> None:
    found = parse_record(format_record(RecordFields(offset, time_ms, key, is_null, tuple(headers))))
    expected = tuple((name.encode() if isinstance(name, str) else name, value) for name, value in headers)
    assert found == RecordFields(offset, time_ms, key, is_null, expected)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"o":1}', '{"o":1,"t":1,"k":"!","n":false,"h":[]}', "7"])
def test_other_texts_are_no_records(text: str) -> None:
    assert parse_record(text) is None


def test_message_headers() -> None:
    text = (
        "flag=1;sysFlag=8;bornTimestamp=2;bornHost=1.2.3.4:5;storeTimestamp=3;storeHost=[::1]:6;reconsumeTimes=4;"
        "preparedTransactionOffset=-5;topic=a;b=c"
    )
    found = parse_message_header(text.encode())
    assert found == (1, 8, 2, "1.2.3.4:5", 3, "[::1]:6", 4, -5, "a;b=c")
    for other in (
        None,
        b"",
        b"\xff",
        text.replace("flag=1", "flag=x").encode(),
        text.replace("topic", "tropic").encode(),
    ):
        assert parse_message_header(other) is None


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        ("orders", "orders"),
        ("%RETRY%g", "_25RETRY_25g"),
        ("ä", "_C3_A4"),
        (".", "_2E"),
        ("..", "_2E."),
        ("a b", "a_20b"),
    ],
)
def test_topics_for_kafka(topic: str, name: str) -> None:
    assert kafka_topic(topic) == name


def test_what_properties_and_keys_can_hold() -> None:
    headers = (
        ("trace", b"1"),
        ("trace", b"2"),
        ("DELAY", b"3"),
        ("null", None),
        ("binary", b"\xff"),
        ("split", b"a\x02b"),
        (b"\xff", b"x"),
        ("TAGS", b"paid"),
    )
    assert readable(headers) == {"trace": "1", "TAGS": "paid"}
    assert [storable_key(key) for key in (b"k", None, b"", b"a b", b"\xff", b"a\x01")] == [
        "k",
        None,
        None,
        None,
        None,
        None,
    ]
