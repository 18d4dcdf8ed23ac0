"""A session beside a writer: each table keeps to what there was when it was first read, until
`refresh`."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.kafka import Log, Record
from logdex.rocketmq import Message, MessageStore

pytest.importorskip("duckdb")
from logdex.sql import SqlSession, connect


def numbers(session: SqlSession, *queries: str) -> list[object]:
    return [next(iter(session.batches(f"SELECT {query}"))).column(0)[0].as_py() for query in queries]


STORE = (
    "count(*) FROM messages",
    "count(DISTINCT body) FROM messages",
    "sum(messages) FROM queues",
    "count(*) FROM index_entries",
    "count(*) FROM message_keys WHERE topic = 'U' AND \"key\" = 'k14'",
    "count(*) FROM segments",
)


def test_a_store(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", mapped_file_size_commit_log=4096) as store:
        for number in range(100):
            if number == 10:
                session = connect(tmp_path / "store")
                found = numbers(session, *STORE)
                assert found[:5] == [10, 10, 10, 20, 0]  # an entry per key, and one per unique key
            topic = "T" if number < 10 else "U"
            assert store.put_message(Message(topic, b"%d" % number, keys=f"k{number}")).is_stored
            assert store.wait_dispatched(10)
        store.flush()
        with session:
            assert numbers(session, *STORE) == found
            files = len([*(tmp_path / "store" / "commitlog").iterdir()])
            session.refresh()
            now = numbers(session, *STORE)
            assert now[:5] == [100, 100, 100, 200, 1]
            assert now[5] in (files, files + 1)  # the store makes the next one in advance
            assert now[5] != found[5]
            assert numbers(session, "count(*) FROM messages WHERE topic = 'U'") == [90]


KAFKA = (
    "count(*) FROM records",
    "count(*) FROM partitions",
    "max(log_end_offset) FROM partitions",
    "count(*) FROM segments",
    "count(*) FROM records WHERE topic = 'b'",
)


def write(home: Path, name: str, count: int) -> None:
    with Log.open(home / name) as log:
        log.append([Record(value=b"%d" % number) for number in range(count)])


def test_a_log_directory(tmp_path: Path) -> None:
    write(tmp_path, "a-0", 5)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=1\n")
    with connect(tmp_path) as session:
        found = numbers(session, *KAFKA)
        assert found == [5, 1, 5, 1, 0]
        write(tmp_path, "a-0", 3)
        write(tmp_path, "b-0", 4)
        assert numbers(session, *KAFKA) == found
        session.refresh()
        assert numbers(session, *KAFKA) == [12, 2, 8, 2, 4]
