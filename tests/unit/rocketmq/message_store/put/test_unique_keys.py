"""UNIQ_KEY values differ, made one by one or as columns, however fast they are made."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from logdex.primitives.host import Host
from logdex.rocketmq.message.message_id import parse_unique_key
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.message_store.put.unique_keys import UniqueKeys
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, open_store

V6 = Host(bytes(range(16)), 9)


@pytest.mark.parametrize("host", [Host(b"\x0a\x01\x02\x03", 10911), V6])
def test_columns_and_single_values_differ_within_a_millisecond(host: Host) -> None:
    keys, found = UniqueKeys(host), list[bytes]()
    for count in (1, 7, 70_000, 300):
        found += keys.column(count, NOW_MS).to_pylist()
        found += [keys.next(NOW_MS) for _ in range(5)]
    assert len(set(found)) == len(found) == 70_328
    parts = [parse_unique_key(value) for value in found[:20]]
    assert {part.address for part in parts} == {host.address}
    assert {part.month_ms for part in parts} == {parse_unique_key(keys.next(NOW_MS)).month_ms}


def test_tables_that_are_put_within_a_millisecond_have_different_keys(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", clock_ms=lambda: NOW_MS, mapped_file_size_commit_log=1 << 16) as store:
        for _ in range(3):
            store.put_columns(pa.table({"topic": ["a"] * 4, "queue_id": [0] * 4, "tags": ["t", None, "t", "t"]}))
            store.put_columns(pa.table({"topic": ["a"] * 2, "queue_id": [0] * 2, "keys": ["k", "l"]}))
            store.put_message(Message("a", queue_id=0, keys="k", tags="t"))
        store.dispatch()
        found = store.get_message("a", 0, 0, 99).messages
        assert len({message.unique_key for message in found}) == len(found) == 21
        assert [list(message.properties) for message in found[:7]] == [
            *([b"UNIQ_KEY", b"TAGS"], [b"UNIQ_KEY"], [b"UNIQ_KEY", b"TAGS"], [b"UNIQ_KEY", b"TAGS"]),
            *([[b"KEYS", b"UNIQ_KEY"]] * 2),
            [b"KEYS", b"UNIQ_KEY", b"TAGS"],
        ]
