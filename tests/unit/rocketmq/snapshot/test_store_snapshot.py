"""A snapshot of a small store: opening, reading by queue, by offset, in log order, while it
grows."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

import logdex
from logdex.errors import (
    CorruptError,
    GeometryError,
    MissingFileError,
    NotAStoreError,
    TruncatedError,
    UnsupportedLayoutError,
    UsageError,
)
from logdex.rocketmq.consuming.consumer import Consumer
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.unit.rocketmq.small_stores import FILE_SIZE, MESSAGES, START_MS, build, message, numbers, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


@pytest.fixture
def store(root: Path) -> Iterator[StoreSnapshot]:
    with opened(root) as snapshot:
        yield snapshot


# -- opening -------------------------------------------------------------------------------------
def test_what_is_no_store_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "dledger" / "dledger-n0" / "data").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "hollow" / "commitlog").mkdir(parents=True)
    wanted = {"gone": NotAStoreError, "empty": NotAStoreError, "file": NotAStoreError, "hollow": NotAStoreError}
    for name, error in {**wanted, "dledger": UnsupportedLayoutError}.items():
        with pytest.raises(error) as caught:
            logdex.open(str(tmp_path / name))
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_geometry_that_cannot_be_told_stops_only_the_index(root: Path) -> None:
    for path in (root / "index").iterdir():
        path.write_bytes(b"\1" * 400)
    with logdex.open(str(root)) as store:
        assert isinstance(store, StoreSnapshot)
        assert len(store.get_message(b"TopicA", 0, 0, 100).messages) == 40
        with pytest.raises(GeometryError):
            store.query_message("TopicA", "hot")


def test_a_size_that_no_index_file_has_stops_only_the_index(root: Path) -> None:
    with logdex.open(root, max_hash_slot_num=8) as store:
        assert isinstance(store, StoreSnapshot)
        assert len(store.get_message(b"TopicA", 0, 0, 100).messages) == 40
        with pytest.raises(GeometryError, match="has maxHashSlotNum 8"):
            store.query_message("TopicA", "hot")


def test_a_config_and_single_settings_exclude_each_other(root: Path) -> None:
    with pytest.raises(UsageError, match="both a config and single settings"):
        StoreSnapshot(root, config=StoreConfig(), max_index_num=9)


def test_a_closed_store_opens_its_files_again(store: StoreSnapshot) -> None:
    first = store.query_message("TopicA", "hot").phy_offsets
    store.close()
    assert store.query_message("TopicA", "hot").phy_offsets == first
    assert store.get_message("TopicA", 0, 3, 1).messages[0].queue_offset == 3


# -- the two-step read ---------------------------------------------------------------------------
def test_statuses_outside_a_queue(store: StoreSnapshot) -> None:
    def status(offset: int, topic: str = "TopicA") -> tuple[GetMessageStatus, int]:
        result = store.get_message(topic, 0, offset, 8)
        return result.status, result.next_begin_offset

    assert status(-1) == (GetMessageStatus.OFFSET_TOO_SMALL, 0)
    assert status(40) == (GetMessageStatus.OFFSET_OVERFLOW_ONE, 40)
    assert status(41) == (GetMessageStatus.OFFSET_OVERFLOW_BADLY, 40)
    assert status(5, "nothing") == (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    assert status(5, "../index") == (GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0)
    with pytest.raises(UsageError):
        store.get_message("TopicA", 0, 0, 0)


def test_an_empty_queue_and_a_lost_queue_file(root: Path) -> None:
    (root / "consumequeue" / "TopicA" / "5").mkdir()
    files = sorted((root / "consumequeue" / "TopicA" / "0").iterdir())
    files[1].unlink()
    with opened(root) as store:
        assert store.get_message("TopicA", 5, 3, 1).status is GetMessageStatus.NO_MESSAGE_IN_QUEUE
        before = store.get_message("TopicA", 0, 10, 20)
        assert (before.status, numbers(before.messages), before.next_begin_offset) == (
            GetMessageStatus.FOUND,
            list(range(10, 16)),
            16,
        )
        lost = store.get_message("TopicA", 0, 16, 20)
        assert (lost.status, lost.next_begin_offset) == (GetMessageStatus.OFFSET_FOUND_NULL, 32)


@pytest.mark.parametrize("left", [0, 7, 20 * 5, 20 * 16 - 1])
def test_a_queue_file_that_is_cut_short_is_told_and_not_skipped(root: Path, left: int) -> None:
    path = sorted((root / "consumequeue" / "TopicA" / "0").iterdir())[1]  # it had offsets 16 to 31
    os.truncate(path, left)
    end = 16 + left // 20
    with opened(root) as store:
        if end > 16:
            found = store.get_message("TopicA", 0, 16, 30)
            assert (numbers(found.messages), found.next_begin_offset) == (list(range(16, end)), end)
            assert found.problem is None or "cut short" in str(found.problem)
        for read in (store.get_message, store.get_columns):
            with pytest.raises(TruncatedError, match=r"cut short.*queue offset 32 is behind it") as told:
                read("TopicA", 0, end, 30)
            assert (told.value.path, told.value.position) == (str(path), left)
        assert numbers(store.get_message("TopicA", 0, 32, 30).messages) == list(range(32, 40))
        tail = store.get_tail("TopicA", 0, 40)
        assert numbers([message for _, message in tail.messages]) == [*range(end), *range(32, 40)]
        assert [str(path) in str(problem) for problem in tail.problems] == [True]
        [info] = [each for each in store.queues() if (each.topic, each.queue_id) == (b"TopicA", 0)]
        assert (info.first_available_offset, info.max_offset) == (0, 40)
        problems = overview(str(root), store.config).problems
        assert problems == [f"{path}: {left} bytes, the queue's files have {16 * 20}"]
    with Consumer(root, "billing", "TopicA") as consumer:
        consumer.seek(0, 16)
        with pytest.raises(TruncatedError, match="queue offset 32 is behind it"):
            list(iter(lambda: consumer.poll(5), []))
        assert consumer.position(0) == end


@pytest.mark.parametrize(("number", "size"), [(0, 1000), (0, 0), (1, 1000), (1, 0), (1, None)])
def test_a_part_of_the_log_that_is_missing_is_told_and_not_skipped(root: Path, number: int, size: int | None) -> None:
    with opened(root) as store:
        places = [message.physical_offset for _, message in store.get_tail("TopicA", 0, 40).messages]
    starts = sorted((root / "commitlog").iterdir())
    assert len(starts) > 2
    if size is None:
        starts[number].unlink()
    else:
        os.truncate(starts[number], size)
    begin = number * FILE_SIZE + (size or 0)
    before = [offset for offset, place in enumerate(places) if place < begin]
    if before and size:
        before.pop()  # the message that the cut goes through
    behind = [offset for offset, place in enumerate(places) if place >= (number + 1) * FILE_SIZE]
    assert behind
    with opened(root) as store:
        if before:
            found = store.get_message("TopicA", 0, 0, 100)
            assert (numbers(found.messages), found.next_begin_offset) == (before, len(before))
            assert found.problem is not None
            assert store.get_columns("TopicA", 0, 0, 100).table["queue_offset"].to_pylist() == before
        for lost in range(len(before) + bool(size), behind[0]):
            for get in (store.get_message, store.get_columns):
                with pytest.raises(CorruptError, match=f"queue offset {behind[0]} is behind it"):
                    get("TopicA", 0, lost, 100)
        assert numbers(store.get_message("TopicA", 0, behind[0], 100).messages) == behind
        tail = store.get_tail("TopicA", 0, 40)
        assert numbers(message for _, message in tail.messages) == before + behind
        assert len(tail.problems) == 1 + bool(size)


@pytest.mark.parametrize("wiped", [False, True])
def test_a_damaged_entry_is_told_and_not_skipped(root: Path, wiped: bool) -> None:
    path = sorted((root / "consumequeue" / "TopicA" / "0").iterdir())[0]
    data = bytearray(path.read_bytes())
    if wiped:
        data[20 * 8 : 20 * 10] = bytes(40)
    else:
        data[20 * 8] ^= 0x40
    path.write_bytes(data)
    with opened(root) as store:
        found = store.get_message("TopicA", 0, 5, 100)
        assert (numbers(found.messages), found.next_begin_offset) == ([5, 6, 7], 8)
        assert found.problem is not None
        for read in (store.get_message, store.get_columns):
            with pytest.raises(CorruptError, match="rebuild derives"):
                read("TopicA", 0, 8, 100)
        behind = 10 if wiped else 9
        assert numbers(store.get_message("TopicA", 0, behind, 100).messages)[:1] == [behind]
        tail = store.get_tail("TopicA", 0, 40)
        assert numbers(message for _, message in tail.messages) == [*range(8), *range(behind, 40)]
        assert len(tail.problems) == behind - 8


def test_bounded_by_its_arguments_alone(store: StoreSnapshot) -> None:
    assert numbers(store.get_message("TopicA", 0, 0, 1000).messages) == list(range(40))
    result = store.get_message("TopicA", 0, 10, 5)
    assert (numbers(result.messages), result.next_begin_offset) == ([10, 11, 12, 13, 14], 15)
    assert (result.min_offset, result.max_offset) == (0, 40)
    two = sum(message.size_bytes for message in result.messages[:2])
    assert numbers(store.get_message("TopicA", 0, 10, 5, two).messages) == [10, 11]
    assert numbers(store.get_message("TopicA", 0, 10, 5, two - 1).messages) == [10]
    assert numbers(store.get_message("TopicA", 0, 10, 5, 1).messages) == [10]


def test_tags(store: StoreSnapshot) -> None:
    result = store.get_message("TopicA", 0, 0, 3, tags="B || C")
    assert (numbers(result.messages), result.next_begin_offset) == ([1, 3, 5], 6)
    assert len(store.get_message("TopicA", 0, 0, 100, tags="*").messages) == 40
    none = store.get_message("TopicA", 0, 0, 100, tags="C")
    assert (none.status, none.next_begin_offset) == (GetMessageStatus.NO_MATCHED_MESSAGE, 40)
    with pytest.raises(UsageError):
        store.get_message("TopicA", 0, 0, 1, tags=" || ")


def test_tags_with_one_hash_are_told_apart(tmp_path: Path) -> None:
    tagged = [message(0, tag="Aa"), message(1, tag="BB"), message(2)]
    with opened(build(tmp_path / "s", tagged)) as store:
        assert numbers(store.get_message("TopicA", 0, 0, 9, tags="BB").messages) == [1]
        assert numbers(store.get_message("TopicA", 0, 0, 9, tags="").messages) == [0, 1, 2]


def test_a_queue_whose_first_messages_are_gone(tmp_path: Path) -> None:
    root = build(tmp_path / "s", [replace(message, queue_offset=message.queue_offset + 20) for message in MESSAGES])
    log_files = sorted((root / "commitlog").iterdir())
    with opened(root) as store:
        small = store.get_message("TopicA", 0, 17, 5)
        assert (small.status, small.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, small.min_offset)
        assert small.min_offset == 19  # as the engine finds it: the last of the entries that fill the first file
        found = store.get_message("TopicA", 0, 19, 5)
        assert (numbers(found.messages), found.next_begin_offset) == ([20, 21, 22, 23, 24], 25)
    log_files[0].unlink()
    with opened(root) as store:
        kept = store.scan()
        first = next(iter(kept)).queue_offset
        gone = store.get_message("TopicA", 0, 20, 2)
        if gone.status is GetMessageStatus.OFFSET_TOO_SMALL:
            gone = store.get_message("TopicA", 0, gone.next_begin_offset, 2)
        assert numbers(gone.messages) == [first, first + 1]


@pytest.mark.parametrize(("field", "value"), [(0, 5), (8, 777)])
def test_an_entry_that_points_to_something_else(root: Path, field: int, value: int) -> None:
    path = min((root / "consumequeue" / "TopicA" / "0").iterdir())
    data = bytearray(path.read_bytes())
    at = 20 * 3 + field
    data[at : at + (8 if field == 0 else 4)] = value.to_bytes(8 if field == 0 else 4, "big")
    path.write_bytes(data)
    with opened(root) as store:
        before = store.get_message("TopicA", 0, 0, 10)
        with pytest.raises(CorruptError) as caught:
            store.get_message("TopicA", 0, before.next_begin_offset, 10)
    assert (numbers(before.messages), before.next_begin_offset) == ([0, 1, 2], 3)
    assert str(before.problem) == str(caught.value)
    if field:
        assert (caught.value.path, caught.value.position, caught.value.field) == (str(path), at, "size")


def test_a_topic_that_is_not_utf8_is_read_from_the_folder_that_it_has(tmp_path: Path) -> None:
    topic = b"Topic\xffA"
    root = build(tmp_path / "store", [message(number, topic=topic) for number in range(3)])
    assert (root / "consumequeue" / "Topic\ufffdA").is_dir()
    with opened(root) as store:
        for name in (topic, "Topic\ufffdA"):
            found = store.get_message(name, 0, 0).messages
            assert [(row.topic, row.queue_offset) for row in found] == [(topic, 0), (topic, 1), (topic, 2)]


# -- by offset, by id, by time -------------------------------------------------------------------
def test_messages_by_offset_and_id(store: StoreSnapshot) -> None:
    for offset, found in store.scan().items():
        assert store.look_message_by_offset(offset) == found
        assert store.look_message(f"7F00000100002A9F{offset:016X}") == found
    for wrong in (-1, store.valid_end_offset, 1 << 62):
        with pytest.raises(MissingFileError):
            store.look_message_by_offset(wrong)
    with pytest.raises(CorruptError):
        store.look_message_by_offset(1)
    with pytest.raises(MissingFileError, match="UNIQ_KEY"):
        store.look_message(f"0A00000100002A9F{0:016X}")
    with pytest.raises(UsageError):
        store.look_message("xyz")


def test_offsets_by_time(store: StoreSnapshot) -> None:
    assert store.get_offset_in_queue_by_time("TopicA", 0, START_MS + 1_500 * 7 + 1) == 8
    assert store.get_offset_in_queue_by_time("TopicA", 0, START_MS + 1_500 * 7 + 1, "upper") == 7
    assert store.get_offset_in_queue_by_time("nothing", 0, START_MS) == 0


# -- in log order --------------------------------------------------------------------------------
def test_scans_are_filtered(tmp_path: Path) -> None:
    mixed = [message(number, queue_id=number % 3, topic=b"AB"[number % 2 :][:1]) for number in range(40)]
    with opened(build(tmp_path / "s", mixed)) as store:
        assert store.scan().end is None
        scan = store.scan()
        assert numbers(scan) == list(range(40))
        assert scan.end is not None
        assert scan.end.offset == store.valid_end_offset
        assert numbers(store.scan("A")) == list(range(0, 40, 2))
        assert numbers(store.scan("A", 1)) == list(range(4, 40, 6))
        with pytest.raises(MissingFileError, match="no topic 'none'"):
            store.scan(b"none")
        assert numbers(store.scan(begin_ms=START_MS + 3_000, end_ms=START_MS + 6_000)) == [2, 3, 4]
        assert numbers(store.scan(queue_offset=38)) == [38, 39]
        limited = store.scan(limit=3)
        assert numbers(limited) == [0, 1, 2]
        assert limited.end is None
        fifth = [offset for offset, _ in store.scan().items()][5]
        assert numbers(store.scan(start_offset=fifth, limit=2)) == [5, 6]
        assert numbers(store.scan(limit=0)) == []


def test_arrow_batches(store: StoreSnapshot) -> None:
    table = store.scan(topic="TopicA").to_arrow().read_all()
    table.validate(full=True)
    rows = table.to_pylist()
    assert [row["queue_offset"] for row in rows] == list(range(40))
    assert (rows[1]["keys"], rows[1]["tags"], rows[1]["body"]) == (["hot"], "B", b"body 1")
    assert dict(rows[1]["properties"])["UNIQ_KEY"] == rows[1]["unique_key"] == "u-1"
    assert store.scan("TopicA", begin_ms=1 << 60).to_arrow().read_all().num_rows == 0


# -- while a broker writes -----------------------------------------------------------------------
def test_a_growing_store(tmp_path: Path) -> None:
    live = build(tmp_path / "live", MESSAGES[:11])
    with opened(live) as store:
        assert numbers(store.query_message("TopicA", "hot").messages) == [9, 7, 5, 3, 1]
        later = build(tmp_path / "later", MESSAGES)
        for path in [path for path in later.rglob("*") if path.is_file()]:
            target = live / path.relative_to(later)
            if target.exists():
                with target.open("r+b") as file:  # as a broker does: the same file, new bytes
                    file.write(path.read_bytes())
            else:
                shutil.copyfile(path, target)
        assert numbers(store.query_message("TopicA", "hot").messages) == [9, 7, 5, 3, 1]
        assert store.get_message("TopicA", 0, 11, 1).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        store.refresh()
        assert numbers(store.query_message("TopicA", "hot").messages) == list(range(39, 0, -2))
        assert numbers(store.get_message("TopicA", 0, 11, 2).messages) == [11, 12]


def test_readers_may_share_a_store(store: StoreSnapshot) -> None:
    failures: list[BaseException] = []

    def read() -> None:
        try:
            for number in range(40):
                assert numbers(store.query_message("TopicA", f"u-{number}").messages) == [number]
                assert numbers(store.get_message("TopicA", 0, number, 1).messages) == [number]
        except BaseException as error:
            failures.append(error)

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
