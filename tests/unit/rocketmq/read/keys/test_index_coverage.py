"""What the IndexFiles do not cover is known: also within a file, where its entries contradict the
log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logdex.io.env import Env
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.histories import HISTORY_CONFIG, History


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "store")


def check(history: History, wanted: int, missing: bool) -> None:
    """Every `wanted`-th message is found by its key, or the answer is not called complete and the
    message lies in what is said to be missing; with that searched, every one is found."""
    with StoreSnapshot(str(history.root), config=history.config) as store:
        for message in history.placed()[::wanted]:
            seen = store.query_message("TopicA", message.unique_key or b"")
            if not seen.messages:
                assert any(begin <= message.physical_offset < end for begin, end in seen.missing)
            assert seen.complete is not missing
            every = store.query_message("TopicA", message.unique_key or b"", scan_missing=True)
            assert (every.phy_offsets, every.complete) == ((message.physical_offset,), True)
        for key in (b"k%d" % number for number in range(7)):
            every = store.query_message("TopicA", key, scan_missing=True)
            assert every.complete
            assert [offset for offset, found in store.scan().items() if key in found.keys][::-1] == list(
                every.phy_offsets
            )


@pytest.mark.parametrize("count", [40, 900])
@pytest.mark.parametrize("lost", [3, 20, 35])
def test_a_log_that_was_cut_and_grew_again(history: History, count: int, lost: int) -> None:
    history.put(count)
    history.cut(lost)
    history.put(3 * lost)
    check(history, max(count // 40, 1), missing=True)


def test_a_log_that_was_cut_and_is_still_shorter(history: History) -> None:
    history.put(500)
    history.cut(200)
    history.put(50)
    check(history, 5, missing=True)


def test_a_log_that_was_cut_and_not_written_since(history: History) -> None:
    history.put(500)
    history.cut(100)
    check(history, 10, missing=False)


def test_messages_that_were_not_indexed_for_a_while(history: History) -> None:
    history.put(400)
    history.put(30, indexed=False)
    history.put(400)
    check(history, 10, missing=True)


def test_an_entry_that_contradicts_the_log_is_told(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no look fell on it before: then the question itself met it."""
    history.put(300)
    old = history.placed()[-10:]
    history.cut(40)
    history.put(200)
    monkeypatch.setattr(StoreSnapshot, "missing_ranges", lambda *_: ())
    with StoreSnapshot(str(history.root), config=history.config) as store:
        for message in old:
            seen = store.query_message("TopicA", message.unique_key or b"")
            assert (seen.messages, seen.complete, len(seen.unreadable)) == ((), False, 1)


def test_two_cuts_leave_two_ranges(history: History) -> None:
    for _ in range(2):
        history.put(300)
        history.cut(60)
    history.put(300)
    check(history, 10, missing=True)
    with StoreSnapshot(str(history.root), config=history.config) as store:
        assert len(store.missing_ranges()) == 2


def test_tags_that_an_older_version_did_not_index(history: History) -> None:
    history.put(300, version="4.9.7")
    history.put(300)
    with StoreSnapshot(str(history.root), config=history.config) as store:
        assert store.missing_ranges() == ()
        for tag in ("A", "B"):
            wanted = tuple(
                message.physical_offset for message in history.placed()[::-1] if message.tags == tag.encode()
            )
            seen = store.query_message("TopicA", tag, index_type="T")
            assert not seen.complete
            assert 0 < len(seen.messages) < len(wanted)
            every = store.query_message("TopicA", tag, index_type="T", scan_missing=True)
            assert (every.phy_offsets, every.complete) == (wanted, True)


@pytest.mark.parametrize("max_index_num", [2, 3, 4, 12])
def test_a_tag_is_in_none_of_the_files_that_share_a_message(tmp_path: Path, max_index_num: int) -> None:
    history = History(tmp_path / "store", replace(HISTORY_CONFIG, max_index_num=max_index_num))
    history.put(40, version="4.9.7")
    with StoreSnapshot(str(history.root), config=history.config) as store:
        for tag in ("A", "B"):
            tagged = [message.physical_offset for message in history.placed() if message.tags == tag.encode()]
            every = store.query_message("TopicA", tag, index_type="T", scan_missing=True)
            assert (every.phy_offsets, every.complete) == (tuple(tagged[::-1]), True)


@pytest.mark.parametrize("max_index_num", [2, 3, 4])
def test_keys_of_a_message_may_fill_a_file(tmp_path: Path, max_index_num: int) -> None:
    history = History(tmp_path / "store", replace(HISTORY_CONFIG, max_index_num=max_index_num))
    history.put(40)
    with StoreSnapshot(str(history.root), config=history.config) as store:
        assert (store.missing_ranges(), store.missing_ranges("T")) == ((), ())


def test_a_healthy_index_is_held_against_the_log_with_few_reads(history: History) -> None:
    history.put(5_000)
    env = Env()
    with StoreSnapshot(str(history.root), config=HISTORY_CONFIG, env=env) as store:
        files = len(store.index_service.files)
        assert files > 3
        assert store.valid_end_offset
        before = env.counters.read_bytes
        assert store.missing_ranges() == ()
        assert store.missing_ranges("T") == ()
        assert env.counters.read_bytes - before < files * 100_000


def test_a_file_of_ten_times_the_entries_is_held_against_the_log_with_as_many_reads(tmp_path: Path) -> None:
    """The bytes that are read are bounded: they do not grow with the file."""
    config = replace(HISTORY_CONFIG, max_index_num=100_000)
    read = []
    for count in (300, 3_000):
        history = History(tmp_path / str(count), config)
        history.put(count)
        env = Env()
        with StoreSnapshot(str(history.root), config=config, env=env) as store:
            [file] = store.index_service.files
            assert file.header.index_count > count
            assert store.valid_end_offset
            before = env.counters.read_bytes
            assert store.missing_ranges() == ()
            read.append(env.counters.read_bytes - before)
    assert 0 < read[1] < 2 * read[0], read
