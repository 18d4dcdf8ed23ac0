"""Queries by key of a small store: exact answers, what the index has lost, harmed files."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from logdex.errors import CorruptError, CrcMismatchError, GeometryError, LogdexError, MissingFileError, UsageError
from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.index_file.index_keys import key_hash_of
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.examples import cases, examples, some
from tests.unit.rocketmq.small_stores import CONFIG, MESSAGES, START_MS, build, message, numbers, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


@pytest.fixture
def store(root: Path) -> Iterator[StoreSnapshot]:
    with opened(root) as snapshot:
        yield snapshot


# -- by key --------------------------------------------------------------------------------------
def test_queries_are_exact(store: StoreSnapshot) -> None:
    hot = store.query_message("TopicA", "hot")
    assert numbers(hot.messages) == list(range(39, 0, -2))
    assert (hot.complete, hot.missing, hot.next_cursor, hot.unreadable) == (True, (), None, ())
    assert numbers(store.query_message(b"TopicA", b"u-7").messages) == [7]
    assert numbers(store.query_message("TopicA", "A", index_type="T").messages) == list(range(38, -1, -2))
    with pytest.raises(MissingFileError, match="no topic 'TopicB'"):
        store.query_message("TopicB", "hot")
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


@pytest.mark.parametrize("lost", cases([[0], [1], [-1], [0, 1, 2], [2, 3], None], 3))
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


def test_a_chain_that_leads_astray_is_told(root: Path) -> None:
    with opened(root) as store:
        slot = key_hash_of("TopicA", "hot") % CONFIG.max_hash_slot_num
        at = store.index_service.files[0].slot_position(slot)
    path = min((root / "index").iterdir())
    whole = path.read_bytes()
    for link in (CONFIG.max_index_num + 5, 1 << 30):
        path.write_bytes(whole[:at] + link.to_bytes(4, "big") + whole[at + 4 :])
        with opened(root) as store:
            answer = store.query_message("TopicA", "hot")
        assert (len(answer.messages) < 20, answer.complete) == (True, False)
        (problem,) = answer.unreadable
        assert isinstance(problem, CorruptError)
        assert (problem.path, problem.position, problem.field) == (str(path), at, "slot")


def test_any_flip_in_the_index_ends_in_an_answer_or_a_typed_error(root: Path) -> None:
    exact = set(range(1, 40, 2))
    for path in sorted((root / "index").iterdir())[:3]:
        whole = path.read_bytes()
        for at in some(range(0, len(whole), 3), 5):
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


@pytest.mark.parametrize("seed", range(2))
def test_any_harm_ends_in_an_answer_or_a_typed_error(root: Path, seed: int) -> None:
    chance = Random(seed)
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(examples(60)):
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


def test_a_file_of_another_size_is_left_out_and_said(root: Path) -> None:
    index = sorted((root / "index").iterdir())
    index[1].write_bytes(index[1].read_bytes()[:-1])
    (root / "index" / "notes.txt").write_text("no IndexFile")
    with opened(root) as store:
        found = store.query_message("TopicA", "hot")
        assert not found.complete
        assert [type(problem).__name__ for problem in found.unreadable] == ["GeometryError"]
        assert len(found.messages) < 20
        assert len(store.query_message("TopicA", "hot", scan_missing=True).messages) == 20
    for path in index:
        path.write_bytes(b"x")
    with opened(root) as store, pytest.raises(GeometryError, match=index[0].name):
        store.query_message("TopicA", "hot")


def test_reload_takes_in_new_files_and_passes_over_what_is_none(root: Path) -> None:
    index = sorted((root / "index").iterdir())
    last = index[-1].read_bytes()
    index[-1].unlink()
    with opened(root) as store:
        service = store.index_service
        files = len(service.files)
        (root / "index" / "notes").write_text("no IndexFile")
        index[-1].write_bytes(b"")  # as a broker has it for a moment
        service.reload()
        assert (len(service.files), service.unusable) == (files, [])
        index[-1].write_bytes(last[:-1])
        service.reload()
        assert (len(service.files), len(service.unusable)) == (files, 1)
        index[-1].write_bytes(last)
        service.reload()
        assert (len(service.files), service.unusable) == (files + 1, [])
