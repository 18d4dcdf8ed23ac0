from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.errors import UsageError
from logdex.primitives.host import Host
from logdex.rocketmq.message.message_id import MessageId, UniqueKey, parse_unique_key


def test_the_servers_id_both_ways() -> None:
    text = "7F00000100002A9F000000000000189E"
    parsed = MessageId.parse(text)
    assert (str(parsed.store_host), parsed.physical_offset) == ("127.0.0.1:10911", 6302)
    assert str(parsed) == text
    assert MessageId.parse(text.lower()) == parsed


@given(st.sampled_from([4, 16]), st.data(), st.integers(0, 65535), st.integers(-(1 << 63), (1 << 63) - 1))
def test_any_servers_id(size: int, data: st.DataObject, port: int, offset: int) -> None:
    made = MessageId(Host(data.draw(st.binary(min_size=size, max_size=size)), port), offset)
    assert len(str(made)) == (32 if size == 4 else 56)
    assert MessageId.parse(str(made)) == made


@pytest.mark.parametrize("text", ["", "7F", "x" * 32, "7F00000100002A9F000000000000189", "7" * 56 + "7", "٣" * 32])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(UsageError, match="MessageID"):
        MessageId.parse(text)
    with pytest.raises(UsageError, match="client"):
        parse_unique_key(text)


@pytest.mark.parametrize("address", [bytes([10, 1, 2, 3]), bytes(range(16))])
def test_a_clients_id_taken_apart(address: bytes) -> None:
    key = UniqueKey(address, 0xABCD, -2, 86_400_123, 0xFFFE)
    assert parse_unique_key(str(key)) == key
    assert parse_unique_key(str(key).encode()) == key
    assert key.host == ("10.1.2.3" if len(address) == 4 else "1:203:405:607:809:a0b:c0d:e0f")


def utc(year: int, month: int, day: int, hour: int = 0) -> int:
    return int(datetime(year, month, day, hour, tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize(
    ("near", "month_ms", "offset", "expected"),
    [
        (utc(2026, 11, 21), 20 * 86_400_000, 0, utc(2026, 11, 21)),
        (utc(2027, 1, 1), 30 * 86_400_000, 0, utc(2026, 12, 31)),
        (utc(2026, 11, 1), 0, 0, utc(2026, 11, 1)),
        (utc(2026, 11, 1, 1), 9 * 3_600_000, 480, utc(2026, 11, 1, 1)),
    ],
)
def test_the_time_of_a_clients_id(near: int, month_ms: int, offset: int, expected: int) -> None:
    key = UniqueKey(bytes(4), 0, 0, month_ms, 0)
    assert key.time_near(near, utc_offset_minutes=offset) == expected
