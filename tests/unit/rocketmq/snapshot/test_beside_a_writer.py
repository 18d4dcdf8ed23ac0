"""A snapshot beside a process that writes on: it keeps to what there was when it was first read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import logdex
from logdex.errors import GeometryError
from logdex.frames.conditions import Conditions
from logdex.rocketmq import Message, MessageStore
from logdex.rocketmq.tables.index_entries import IndexEntries
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


OWN_SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 100_000,
    "mapped_file_size_consume_queue": 2000,
    "max_hash_slot_num": 1000,
    "max_index_num": 4000,
}


@pytest.mark.parametrize("refreshes", [True, False])
def test_sizes_that_no_file_showed_are_looked_for_again(refreshes: bool, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with (
        MessageStore.open(path, **OWN_SIZES) as store,
        logdex.open_store(path) as snapshot,
        logdex.open_store(path) as early,
    ):
        assert (snapshot.config.max_hash_slot_num, snapshot.config.has_guessed_sizes) == (5_000_000, True)
        assert early.index_service.files == []
        put(store, "T", range(300))
        if refreshes:
            snapshot.refresh()
        assert [message.body for message in snapshot.query("T", "k299")] == [b"299"]
        assert {name: getattr(snapshot.config, name) for name in OWN_SIZES} == OWN_SIZES
        assert not snapshot.config.has_guessed_sizes
        early.refresh()
        assert [message.body for message in early.query_message("T", "k7").messages] == [b"7"]
        assert len(early.get_message("T", 0, 0).messages) > 0
        entries = IndexEntries(early).batches((), Conditions())
        assert sum(batch.num_rows for batch in entries) == 600


def test_stated_sizes_are_not_looked_for_again(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", **OWN_SIZES) as store:
        other = {**OWN_SIZES, "max_hash_slot_num": 500}
        with logdex.open_store(tmp_path / "store", **other) as snapshot:
            put(store, "T", range(300))
            snapshot.refresh()
            with pytest.raises(GeometryError, match="max_hash_slot_num"):
                snapshot.query("T", "k299")


def test_an_index_file_that_is_filled_meanwhile_shows_its_sizes(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", **OWN_SIZES) as store:
        put(store, "T", range(300))
    [path] = (tmp_path / "store" / "index").iterdir()
    filled = path.read_bytes()
    path.write_bytes(bytes(len(filled)))  # as it is while the writer makes it
    with logdex.open_store(tmp_path / "store") as snapshot:
        assert snapshot.config.has_guessed_sizes
        path.write_bytes(filled)
        assert [message.body for message in snapshot.query("T", "k299")] == [b"299"]


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
