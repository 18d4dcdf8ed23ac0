"""A snapshot of a small store: reads by queue, by offset, by key; parts missing, harmed, or still being written."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import pytest

import logdex
from logdex.errors import (
    CorruptError,
    CrcMismatchError,
    GeometryError,
    LogdexError,
    MissingFileError,
    NotAStoreError,
    UnsupportedLayoutError,
    UsageError,
)
from logdex.layout import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.dialect import Dialect, StoreConfig
from logdex.rocketmq.message import StoredMessage
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.results import GetMessageStatus
from logdex.rocketmq.store import StoreSnapshot
from logdex.testing.store_builder import make_message, write_commit_log

FILE_SIZE = 2048
START_MS = 1_700_000_000_000
CONFIG = StoreConfig(
    mapped_file_size_commit_log=FILE_SIZE,
    mapped_file_size_consume_queue=20 * 16,
    max_hash_slot_num=7,
    max_index_num=12,
    dialect=Dialect.of("5.5.0"),
)


def message(number: int, *, keys: str = "", tag: str = "", queue_id: int = 0, **changes: Any) -> StoredMessage:
    properties = [(b"UNIQ_KEY", b"u-%d" % number)] if changes.pop("unique", True) else []
    properties += [(b"KEYS", keys.encode())] if keys else []
    properties += [(b"TAGS", tag.encode())] if tag else []
    given = {"body": b"body %d" % number, "store_timestamp_ms": START_MS + 1_500 * number, **changes}
    return make_message(queue_id=queue_id, queue_offset=number, properties=properties, **given)


MESSAGES = [message(number, keys="hot" if number % 2 else f"k-{number}", tag="AB"[number % 2]) for number in range(40)]


def build(root: Path, messages: list[StoredMessage], config: StoreConfig = CONFIG, **placing: Any) -> Path:
    """A store with ConsumeQueues and IndexFiles, as a broker leaves it."""
    write_commit_log(str(root), messages, FILE_SIZE, **placing)
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


def opened(root: Path, config: StoreConfig = CONFIG) -> StoreSnapshot:
    return StoreSnapshot(str(root), config=config)


@pytest.fixture
def store(root: Path) -> Iterator[StoreSnapshot]:
    with opened(root) as snapshot:
        yield snapshot


def numbers(messages: Any) -> list[int]:
    return [message.queue_offset for message in messages]


# -- opening -----------------------------------------------------------------------------------------------------------
def test_what_is_no_store_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "events-0").mkdir()
    (tmp_path / "events-0" / f"{0:020d}.log").touch()
    (tmp_path / "file").touch()
    (tmp_path / "hollow" / "commitlog").mkdir(parents=True)
    wanted = {"gone": NotAStoreError, "empty": NotAStoreError, "file": NotAStoreError, "hollow": NotAStoreError}
    for name, error in {**wanted, "events-0": UnsupportedLayoutError}.items():
        with pytest.raises(error) as caught:
            logdex.open(str(tmp_path / name))
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_geometry_that_cannot_be_told_stops_only_the_index(root: Path) -> None:
    for path in (root / "index").iterdir():
        path.write_bytes(bytes(400))
    with logdex.open(str(root)) as store:
        assert len(store.get_message(b"TopicA", 0, 0, 100).messages) == 40
        with pytest.raises(GeometryError):
            store.query_message("TopicA", "hot")


def test_a_closed_store_opens_its_files_again(store: StoreSnapshot) -> None:
    first = store.query_message("TopicA", "hot").phy_offsets
    store.close()
    assert store.query_message("TopicA", "hot").phy_offsets == first
    assert store.get_message("TopicA", 0, 3, 1).messages[0].queue_offset == 3


# -- the two-step read -------------------------------------------------------------------------------------------------
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
    with opened(root) as store, pytest.raises(CorruptError) as caught:
        store.get_message("TopicA", 0, 0, 10)
    if field:
        assert (caught.value.path, caught.value.position, caught.value.field) == (str(path), at, "size")


# -- by offset, by id, by time -----------------------------------------------------------------------------------------
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


# -- in log order ------------------------------------------------------------------------------------------------------
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
        assert numbers(store.scan(b"none")) == []
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
    assert store.scan("none").to_arrow().read_all().num_rows == 0


# -- by key ------------------------------------------------------------------------------------------------------------
def test_queries_are_exact(store: StoreSnapshot) -> None:
    hot = store.query_message("TopicA", "hot")
    assert numbers(hot.messages) == list(range(39, 0, -2))
    assert (hot.complete, hot.missing, hot.next_cursor, hot.unreadable) == (True, (), None, ())
    assert numbers(store.query_message(b"TopicA", b"u-7").messages) == [7]
    assert numbers(store.query_message("TopicA", "A", index_type="T").messages) == list(range(38, -1, -2))
    assert store.query_message("TopicB", "hot").messages == ()
    begin, end = START_MS + 1_500 * 5, START_MS + 1_500 * 9
    assert numbers(store.query_message("TopicA", "hot", begin, end).messages) == [9, 7, 5]
    assert numbers(store.query_message("TopicA", "hot", begin + 1, end - 1).messages) == [7]
    with pytest.raises(UsageError):
        store.query_message("TopicA", "hot", max=0)
    with pytest.raises(UsageError):
        store.query_message("TopicA", "hot", broker_semantics=True, scan_missing=True)


def test_pages(store: StoreSnapshot) -> None:
    first = store.query_message("TopicA", "hot", max=15)
    rest = store.query_message("TopicA", "hot", max=15, cursor=first.next_cursor)
    assert numbers(first.messages + rest.messages) == list(range(39, 0, -2))
    assert rest.next_cursor is None
    assert store.query_message("TopicA", "hot", max=20).next_cursor is None


def test_collisions_repeats_and_rolled_back_messages(tmp_path: Path) -> None:
    messages = [
        *(message(number, keys="BB BB", unique=False) for number in range(5)),
        message(5, keys="Aa Aa x", unique=False),
        message(6, keys="Aa", unique=False, sys_flag=SYS_FLAG_PREPARED),
        message(7, keys="Aa", unique=False, sys_flag=SYS_FLAG_ROLLBACK),
    ]
    with opened(build(tmp_path / "s", messages)) as store:
        found = store.query_message("TopicA", "Aa", max=2)
        assert numbers(found.messages) == [6, 5]
        assert store.query_message("TopicA", "Aa").collisions == 5
        broker = store.query_message("TopicA", "Aa", broker_semantics=True)
        assert numbers(broker.messages) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
        assert not broker.complete
        last = store.query_message("TopicA", "Aa", max=3, broker_semantics=True)
        assert numbers(last.messages) == [5, 5, 6]
        assert len(store.query_offset("TopicA", "Aa", max_num=2).phy_offsets) == 2


def test_a_clock_that_jumps(tmp_path: Path) -> None:
    times = [10_000, 2_000, 50_000, 3_000, 10_000, 900_000, 1_000, 10_999] * 4
    messages = [message(number, keys="hot", store_timestamp_ms=START_MS + ms) for number, ms in enumerate(times)]
    with opened(build(tmp_path / "s", messages)) as store:
        for begin, end in [(0, 3_000), (2_000, 2_000), (10_000, 10_000), (10_999, 60_000), (900_000, 900_000)]:
            found = store.query_message("TopicA", "hot", START_MS + begin, START_MS + end)
            wanted = [number for number, ms in enumerate(times) if begin <= ms <= end]
            assert numbers(found.messages) == wanted[::-1]


@pytest.mark.parametrize("lost", [[0], [1], [-1], [0, 1, 2], [2, 3], None])
def test_lost_index_files_are_told_and_searched(root: Path, lost: list[int] | None) -> None:
    files = sorted((root / "index").iterdir())
    assert len(files) > 5
    for path in files if lost is None else [files[place] for place in lost]:
        path.unlink()
    with opened(root) as store:
        for key, wanted in [("hot", list(range(39, 0, -2))), *((f"u-{number}", [number]) for number in range(40))]:
            seen = store.query_message("TopicA", key)
            assert not seen.complete
            missed = [number for number in wanted if number not in numbers(seen.messages)]
            offsets = dict(zip(range(40), [offset for offset, _ in store.scan().items()], strict=True))
            assert all(any(low <= offsets[number] < high for low, high in seen.missing) for number in missed)
            every = store.query_message("TopicA", key, scan_missing=True)
            assert (numbers(every.messages), every.complete) == (wanted, True)
            page = store.query_message("TopicA", key, scan_missing=True, max=4)
            assert numbers(page.messages) == wanted[:4]


def test_messages_without_keys_are_not_missed(tmp_path: Path) -> None:
    messages = [message(number, keys="k" if number in (80, 81, 90) else "", unique=False) for number in range(200)]
    root = build(tmp_path / "s", messages)
    with opened(root) as store:
        assert store.query_message("TopicA", "k").complete
    shutil.rmtree(root / "index")
    with opened(root) as store:
        answer = store.query_message("TopicA", "k")
        offset_80 = next(offset for offset, found in store.scan().items() if found.queue_offset == 80)
        assert (answer.complete, answer.missing) == (False, ((offset_80, store.valid_end_offset),))


def test_an_index_of_another_log_is_not_trusted(root: Path, tmp_path: Path) -> None:
    other = build(tmp_path / "other", [message(number, keys="mine") for number in range(100, 110)])
    shutil.rmtree(other / "index")
    shutil.copytree(root / "index", other / "index")
    with opened(other) as store:
        answer = store.query_message("TopicA", "mine")
        assert (answer.messages, answer.complete) == ((), False)
        assert len(store.query_message("TopicA", "mine", scan_missing=True).messages) == 10


def test_deleted_front_of_the_log(root: Path) -> None:
    min((root / "commitlog").iterdir()).unlink()
    with opened(root) as store:
        left = numbers(store.scan())
        answer = store.query_message("TopicA", "hot")
        assert numbers(answer.messages) == [number for number in left[::-1] if number % 2]
        assert (answer.complete, answer.expired) == (True, 20 - len(answer.messages))


def test_a_harmed_body_is_reported_and_left_out(root: Path) -> None:
    path = min((root / "commitlog").iterdir())
    data = bytearray(path.read_bytes())
    data[data.index(b"body 3")] ^= 1
    path.write_bytes(data)
    with opened(root) as store:
        answer = store.query_message("TopicA", "hot")
        assert (len(answer.messages), answer.complete) == (19, False)
        assert isinstance(answer.unreadable[0], CrcMismatchError)
        with pytest.raises(CrcMismatchError):
            store.get_message("TopicA", 0, 3, 1)


def test_a_torn_end(root: Path) -> None:
    path = max((root / "commitlog").iterdir())
    with opened(root) as store:
        last, size = [(offset, found.size_bytes) for offset, found in store.scan().items()][-1]
    data = bytearray(path.read_bytes())
    at = last - int(path.name) + size
    data[at - 100 : at] = bytes(100)
    path.write_bytes(data)
    with opened(root) as store:
        assert store.valid_end_offset == last
        answer = store.query_message("TopicA", "hot")
        assert (numbers(answer.messages)[0], answer.complete, answer.behind_end) == (37, True, 1)
        assert store.get_message("TopicA", 0, 39, 1).status is GetMessageStatus.OFFSET_OVERFLOW_ONE
        with pytest.raises(MissingFileError):
            store.look_message_by_offset(last)


def test_any_flip_in_the_index_ends_in_an_answer_or_a_typed_error(root: Path) -> None:
    exact = set(range(1, 40, 2))
    for path in sorted((root / "index").iterdir())[:3]:
        whole = path.read_bytes()
        for at in range(0, len(whole), 3):
            harmed = bytearray(whole)
            harmed[at] ^= 0xFF
            path.write_bytes(harmed)
            with opened(root) as store:
                try:
                    found = store.query_message("TopicA", "hot")
                except LogdexError:
                    continue
                assert set(numbers(found.messages)) <= exact
                assert set(numbers(store.query_message("TopicA", "hot", broker_semantics=True).messages))
        path.write_bytes(whole)


@pytest.mark.parametrize("seed", range(4))
def test_any_harm_ends_in_an_answer_or_a_typed_error(root: Path, seed: int) -> None:
    chance = Random(seed)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(100):
        path = chance.choice(paths)
        whole = path.read_bytes()
        harmed = bytearray(whole)
        for _ in range(chance.choice((1, 1, 8))):
            harmed[chance.randrange(len(harmed))] ^= 1 << chance.randrange(8)
        path.write_bytes(harmed[: chance.choice((len(harmed), len(harmed), chance.randrange(len(harmed))))])
        for config in (CONFIG, None):
            for ask in (
                lambda store: store.query_message("TopicA", "hot", scan_missing=True),
                lambda store: store.query_message("TopicA", "hot", broker_semantics=True),
                lambda store: store.get_message("TopicA", 0, chance.randrange(40), 50, tags="A"),
                lambda store: store.look_message_by_offset(chance.randrange(8192)),
                lambda store: store.get_offset_in_queue_by_time("TopicA", 0, START_MS + chance.randrange(60_000)),
                lambda store: (store.queues(), store.missing_ranges(), list(store.scan())),
            ):
                with contextlib.suppress(LogdexError), StoreSnapshot(str(root), config=config) as store:
                    ask(store)
        path.write_bytes(whole)


# -- while a broker writes ---------------------------------------------------------------------------------------------
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
