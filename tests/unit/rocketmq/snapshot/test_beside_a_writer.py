"""A snapshot beside a process that writes on: it keeps to what there was when it was first read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import logdex
from logdex.rocketmq import Message, MessageStore
from tests.unit.rocketmq.small_stores import opened


def put(store: MessageStore, topic: str, numbers: range) -> None:
    for number in numbers:
        assert store.put_message(Message(topic, b"%d" % number, keys=f"k{number}")).is_stored
    assert store.wait_dispatched(10)
    store.flush()


def test_what_is_put_later_is_seen_behind_refresh_only(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", mapped_file_size_commit_log=4096) as store:
        put(store, "T", range(10))
        with logdex.open_store(tmp_path / "store") as snapshot:
            first = snapshot.scan()
            assert len(list(first)) == 10
            assert first.end == snapshot.valid_end
            topics = snapshot.topics()
            put(store, "T", range(10, 15))
            put(store, "U", range(40))  # into further files, too
            scan = snapshot.scan()
            assert len(list(scan)) == 10
            assert scan.end == first.end
            assert snapshot.to_arrow().read_all().num_rows == 10
            assert snapshot.scan(topic="T").to_arrow().read_all().num_rows == 10
            assert (snapshot.topics(), sum(queue.max_offset for queue in snapshot.queues())) == (topics, 10)
            snapshot.refresh()
            assert len(list(snapshot)) == 55
            assert sorted(snapshot.topics()) == ["T", "U"]


def test_files_that_were_made_before_the_first_read_are_read(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", mapped_file_size_commit_log=4096) as store:
        put(store, "T", range(10))
        with logdex.open_store(tmp_path / "store") as snapshot, logdex.open_store(tmp_path / "store") as limited:
            assert len(list(limited.scan(limit=1))) == 1
            put(store, "T", range(10, 100))  # into further files, too
            for each in (snapshot, limited):
                scan = each.scan()
                assert len(list(scan)) == 100
                assert scan.end == each.valid_end
                assert sum(queue.max_offset for queue in each.queues()) == 100


def test_a_scan_does_not_run_after_the_writer(tmp_path: Path) -> None:
    table = pa.table({"topic": ["T"] * 10_000, "body": [b"x"] * 10_000})
    with MessageStore.open(tmp_path / "store") as store, opened(tmp_path / "store") as snapshot:
        store.put_columns(table)
        store.put_columns(table)
        seen = 0
        for seen, _ in enumerate(snapshot.scan(), 1):
            if seen % 5_000 == 0:
                store.put_columns(table)
                store.flush()
            assert seen <= 20_000
        assert seen == 20_000


def test_a_hole_behind_the_end_is_still_told(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store") as store:
        put(store, "T", range(20))
        at = store.max_phy_offset
    [path] = (tmp_path / "store" / "commitlog").iterdir()
    with path.open("r+b") as file:
        file.seek(at + 3000)
        file.write(b"left of something")
    with opened(tmp_path / "store") as snapshot:
        scan = snapshot.scan()
        assert len(list(scan)) == 20
        assert scan.end is not None
        assert not scan.end.is_clean
        assert scan.end.offset == at
