"""Read plans: what they leave out, where they cut, what is read for them, and what they fall back
to."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.layout.rocketmq import SYS_FLAG_PREPARED
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.parts import queue_guide
from logdex.rocketmq.read.plan import ReadPlan
from logdex.rocketmq.read.read_filter import QueueRange, ReadFilter
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing.store_builder import make_message, write_commit_log
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, START_MS, build, opened

LARGE = StoreConfig(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20 * 64, max_hash_slot_num=7, max_index_num=2000
)
QUEUES = 40


def large_messages(body_size: int = 2_000, count: int = 1_600) -> list[StoredMessage]:
    return [
        make_message(
            b"Large",
            queue_id=number % QUEUES,
            queue_offset=number // QUEUES,
            body=b"%08d" % number + bytes(body_size - 8),
            store_timestamp_ms=START_MS + number,
            properties=[(b"UNIQ_KEY", b"u-%d" % number), (b"TAGS", b"t%d" % (number % 9))],
        )
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 3.4 MB in four files, of 40 queues."""
    root = tmp_path_factory.mktemp("large")
    write_commit_log(str(root), large_messages(), 1 << 20)
    rebuild(str(root), str(root), LARGE, in_place=True, sync=False)
    return root


@pytest.fixture
def small(tmp_path: Path) -> Iterator[StoreSnapshot]:
    with opened(build(tmp_path / "store", MESSAGES)) as store:
        yield store


def offsets_of(plan: ReadPlan, env: Env | None = None) -> list[int]:
    splits = pickle.loads(pickle.dumps(plan.splits))
    batches = [batch for split in splits for batch in (split.to_batches(env=env) if env else split.to_batches())]
    return [offset for batch in batches for offset in batch["physical_offset"].to_pylist()]


def ends_of(plan: ReadPlan) -> list[LogEnd | None]:
    """What reading each split returns."""
    ends: list[LogEnd | None] = []
    for split in plan.splits:
        batches = split.to_batches()
        while True:
            try:
                next(batches)
            except StopIteration as stop:
                ends.append(stop.value)
                break
    return ends


def all_offsets(store: StoreSnapshot) -> list[int]:
    return [offset for offset, _ in store.scan().items()]


# -- what is planned -----------------------------------------------------------------------------
def test_a_plan_of_everything_has_every_file(small: StoreSnapshot) -> None:
    plan = small.plan_read(ReadFilter())
    files = small.commit_log.files
    assert [split.file for split in plan.splits] == list(files)
    assert (plan.total_files, plan.total_bytes) == (len(files), FILE_SIZE * len(files))
    assert (plan.pruned_files, plan.pruned_bytes) == (0, 0)
    assert repr(plan).startswith(f"ReadPlan({len(files)} splits of {plan.total_bytes} bytes; pruned: 0 of")
    assert offsets_of(plan) == all_offsets(small)
    assert [field.name for field in plan.schema][:2] == ["topic", "queue_id"]


def test_physical_offsets_leave_out_files_and_begin_at_messages(small: StoreSnapshot) -> None:
    offsets = all_offsets(small)
    begin, end = offsets[15] - 7, offsets[30] + 1
    plan = small.plan_read(ReadFilter(begin_offset=begin, end_offset=end))
    assert offsets_of(plan) == offsets[15:31]
    assert plan.pruned_files == plan.total_files - len({split.file for split in plan.splits}) > 0
    assert plan.splits[0].file.start_offset + plan.splits[0].begin == offsets[15]
    assert plan.pruned_bytes == plan.total_bytes - sum(split.size_bytes for split in plan.splits)
    assert offsets_of(small.plan_read(ReadFilter(begin_offset=offsets[-1] + 1))) == []


def test_large_files_are_cut_at_messages(large: Path) -> None:
    with StoreSnapshot(str(large), config=LARGE) as store:
        offsets = all_offsets(store)
        plan = store.plan_read(ReadFilter(), columns=["physical_offset"], split_bytes=100_000)
        assert len(plan.splits) >= 20
        assert {split.file.start_offset + split.begin for split in plan.splits} <= set(offsets)
        assert offsets_of(plan) == offsets
    shutil.copytree(large / "commitlog", large / "alone" / "commitlog")
    with StoreSnapshot(str(large / "alone"), config=LARGE) as store:
        assert len(store.plan_read(ReadFilter(), split_bytes=100_000).splits) == len(store.commit_log.files)


def test_columns_that_are_none_are_refused(small: StoreSnapshot) -> None:
    for columns in ([], ["body", "body"], ["offset"]):
        with pytest.raises(UsageError):
            small.plan_read(ReadFilter(), columns=columns)
        with pytest.raises(UsageError):
            small.scan().to_arrow(columns)
    with pytest.raises(UsageError):
        ReadFilter(key=b"k")
    with pytest.raises(UsageError):
        small.plan_read(ReadFilter(), split_bytes=0)


def test_a_split_says_where_its_log_ends(small: StoreSnapshot) -> None:
    ends = ends_of(small.plan_read(ReadFilter()))
    assert ends[-1] is not None
    assert ends[:-1] == [None] * (len(ends) - 1)
    assert ends[-1].kind is EndKind.ZEROS


# -- keys ----------------------------------------------------------------------------------------
def test_a_key_is_looked_up_in_the_index(small: StoreSnapshot) -> None:
    wanted = ReadFilter(topic=b"TopicA", key=b"hot", begin_ms=START_MS + 15_000)
    plan = small.plan_read(wanted)
    found = sorted(small.query_message("TopicA", "hot", START_MS + 15_000).phy_offsets)
    assert offsets_of(plan) == found
    assert all(split.runs for split in plan.splits)
    assert plan.pruned_bytes > plan.total_bytes // 2


@pytest.mark.parametrize("harm", ["lost", "lost in part", "damaged"])
def test_a_key_is_searched_where_the_index_does_not_tell(tmp_path: Path, harm: str) -> None:
    root = build(tmp_path / "store", MESSAGES)
    with opened(root) as store:
        expected = sorted(store.query_message("TopicA", "hot").phy_offsets)
    files = sorted((root / "index").iterdir())
    if harm == "lost":
        shutil.rmtree(root / "index")
    elif harm == "lost in part":
        files[1].unlink()
    else:
        data = bytearray(files[0].read_bytes())
        data[40:68] = b"\x7f\xff\xff\xff" * 7
        files[0].write_bytes(data)
    with opened(root) as store:
        plan = store.plan_read(ReadFilter(topic=b"TopicA", key=b"hot"))
        assert offsets_of(plan) == expected
        kinds = {split.runs is None for split in plan.splits}
        assert kinds == ({True, False} if harm == "lost in part" else {True})


# -- times ---------------------------------------------------------------------------------------
def with_jump(back_ms: int) -> list[StoredMessage]:
    """A clock that goes back once, in the middle of the log."""
    shift = [0] * 100 + [back_ms] * 100
    return [
        make_message(queue_offset=n, body=bytes(100), store_timestamp_ms=START_MS + 1_000 * n - shift[n])
        for n in range(200)
    ]


@pytest.mark.parametrize("back_ms", [0, 20_000, 500_000])
def test_times_leave_out_files_if_the_clock_is_said_to_go_back_by_so_much(tmp_path: Path, back_ms: int) -> None:
    with opened(build(tmp_path / "store", with_jump(back_ms))) as store:
        begin, end = START_MS + 85_000, START_MS + 95_000
        times = ReadFilter(begin_ms=begin, end_ms=end)
        expected = [at for at, message in store.scan().items() if begin <= message.store_timestamp_ms <= end]
        assert len(expected) >= 11
        everything = store.plan_read(times)
        narrow = store.plan_read(times, time_slack_ms=20_000)
        assert offsets_of(everything) == offsets_of(narrow) == expected
        assert everything.pruned_files == 0
        broken = back_ms > 20_000  # The first messages of files show it, and nothing is left out.
        assert (narrow.pruned_files == 0) is broken
        assert [at for at, _ in store.scan(begin_ms=begin, end_ms=end).items()] == expected


def test_times_narrow_within_large_files(large: Path) -> None:
    with StoreSnapshot(str(large), config=LARGE) as store:
        times = ReadFilter(begin_ms=START_MS + 800, end_ms=START_MS + 810)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("logdex.rocketmq.read.parts.time_range.NEAR_BYTES", 50_000)
            plan = store.plan_read(times, columns=["physical_offset"], time_slack_ms=5)
        assert len(offsets_of(plan)) == 11
        assert plan.total_bytes - plan.pruned_bytes < 300_000


# -- what is read --------------------------------------------------------------------------------
def bytes_read(root: Path, *, columns: list[str] | None = None, limit: int | None = None, **wanted: Any) -> int:
    """Bytes that a scan reads or maps; what opening the store takes is left out."""
    env = Env()
    with StoreSnapshot(str(root), config=LARGE, env=env) as store:
        before = env.counters.read_bytes + env.counters.mapped_bytes
        scan = LogScan(store.plan_source(ReadFilter()), ReadFilter(**wanted), limit)
        rows = scan.to_arrow(columns).read_all().num_rows
        assert rows > 0
        return env.counters.read_bytes + env.counters.mapped_bytes - before


def test_a_queue_is_read_through_its_consume_queue(large: Path) -> None:
    full = bytes_read(large)
    assert full >= 4 << 20
    # A quarter at most: the last file is looked at behind its last message, where a hole would be,
    # and of each queue one message a file is held against its entry.
    assert bytes_read(large, topic=b"Large", queue_ids=frozenset([3])) < full // 4
    assert bytes_read(large, topic=b"Large", queue_ids=frozenset([3]), limit=3) < full // 15
    assert bytes_read(large, tags=frozenset([b"t5"]), queue_ids=frozenset([3])) < bytes_read(
        large, queue_ids=frozenset([3])
    )
    assert bytes_read(large, begin_queue_offset=39) < full // 4
    queues = range(QUEUES)
    assert bytes_read(large, queue_ranges=tuple(QueueRange(b"Large", queue, 39) for queue in queues)) < full // 4
    assert bytes_read(large, queue_ranges=tuple(QueueRange(b"Large", queue, 0, 3) for queue in queues)) < full // 3
    assert bytes_read(large, queue_ranges=(QueueRange(b"Large", 0, 39),)) > full // 2, "all of the other queues"


def test_bodies_are_not_read_where_none_is_asked_for(tmp_path: Path) -> None:
    write_commit_log(str(tmp_path), large_messages(30_000, 160), 1 << 20)
    rebuild(str(tmp_path), str(tmp_path), LARGE, in_place=True, sync=False)
    with_bodies = bytes_read(tmp_path, topic=b"Large", queue_ids=frozenset([3]))
    without = bytes_read(tmp_path, columns=["queue_offset", "tags", "keys"], topic=b"Large", queue_ids=frozenset([3]))
    assert with_bodies - without > 4 * 30_000


# -- what is not believed ------------------------------------------------------------------------
@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """ConsumeQueues are used, however small the store."""
    monkeypatch.setattr(queue_guide, "is_worth_it", lambda guide, begin: True)


def two_queues(count: int = 12) -> list[StoredMessage]:
    return [message_of(number % 2, number // 2) for number in range(count)]


def message_of(queue_id: int, queue_offset: int, **changes: Any) -> StoredMessage:
    return make_message(queue_id=queue_id, queue_offset=queue_offset, body=b"0123456789", **changes)


def queue_file(root: Path, queue_id: int) -> Path:
    return root / "consumequeue" / "TopicA" / str(queue_id) / f"{0:020d}"


def put_entry(path: Path, place: int, entry: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[20 * place : 20 * place + 20] = entry
    path.write_bytes(data)


def rows_of_queue(root: Path, queue_id: int) -> list[int]:
    with opened(root) as store:
        return [message.queue_offset for message in store.scan("TopicA", queue_id)]


@pytest.mark.usefixtures("always")
def test_an_entry_of_another_queues_message_is_found_out_when_it_is_read(tmp_path: Path) -> None:
    root = build(tmp_path / "store", two_queues())
    lent = queue_file(root, 1).read_bytes()[20 * 2 : 20 * 3]
    put_entry(queue_file(root, 0), 3, lent)  # Queue 0 names a message of queue 1, and its own fourth nobody.
    put_entry(queue_file(root, 1), 2, bytes(19) + b"\x01")
    assert rows_of_queue(root, 0) == [0, 1, 2, 3, 4, 5]
    assert rows_of_queue(root, 1) == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("always")
def test_folders_with_each_others_names_are_not_believed(tmp_path: Path) -> None:
    root = build(tmp_path / "store", two_queues())
    first, second = queue_file(root, 0).parent, queue_file(root, 1).parent
    first.rename(root / "aside")
    second.rename(first)
    (root / "aside").rename(second)
    assert rows_of_queue(root, 0) == rows_of_queue(root, 1) == [0, 1, 2, 3, 4, 5]


@pytest.mark.usefixtures("always")
def test_messages_without_an_entry_are_found(tmp_path: Path) -> None:
    messages = [*two_queues(), message_of(0, 0, sys_flag=SYS_FLAG_PREPARED), *[message_of(1, n) for n in range(6, 9)]]
    root = build(tmp_path / "store", messages)
    assert rows_of_queue(root, 0) == [0, 1, 2, 3, 4, 5, 0]
    shutil.rmtree(queue_file(root, 0).parent)
    assert rows_of_queue(root, 0) == [0, 1, 2, 3, 4, 5, 0]


@pytest.mark.usefixtures("always")
def test_a_queue_that_was_made_anew_has_its_older_messages_in_the_log(tmp_path: Path) -> None:
    root = build(tmp_path / "old", two_queues(6))
    again = build(tmp_path / "store", [*two_queues(6), *two_queues(6)])
    with opened(again) as store:
        fourth = all_offsets(store)[6]
    data = queue_file(again, 0).read_bytes()
    entries = [data[at : at + 20] for at in range(0, 20 * 16, 20)]
    newer = [entry for entry in entries if int.from_bytes(entry[:8], "big") >= fourth]
    queue_file(again, 0).write_bytes(b"".join(newer).ljust(len(data), b"\0"))
    assert rows_of_queue(again, 0) == [0, 1, 2, 0, 1, 2]
    assert root.is_dir()


@pytest.mark.usefixtures("always")
def test_the_logs_end_is_told_though_its_last_message_is_not_wanted(tmp_path: Path) -> None:
    root = build(tmp_path / "store", two_queues(11))
    with opened(root) as store:
        last = all_offsets(store)[-1]
    path = root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    at = data.index(b"0123456789", last)
    data[at : at + 5] = bytes(5)
    path.write_bytes(data)
    for wanted in (
        ReadFilter(),
        ReadFilter(queue_ids=frozenset([1])),
        ReadFilter(queue_ids=frozenset([0])),
        ReadFilter(end_ms=0),
    ):
        with opened(root) as store:
            scan = LogScan(store.plan_source(wanted), wanted)
            list(scan)
            assert scan.end is not None
            assert (scan.end.offset, scan.end.kind) == (last, EndKind.CORRUPT), wanted


def test_a_key_in_one_file_is_searched(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    path = sorted((root / "commitlog").iterdir())[1]
    with StoreSnapshot(str(path), config=CONFIG) as store:
        plan = store.plan_read(ReadFilter(topic=b"TopicA", key=b"hot"))
        assert offsets_of(plan) == sorted(store.query_message("TopicA", "hot").phy_offsets)


@pytest.mark.parametrize("is_body", [True, False])
@pytest.mark.parametrize("is_worth_it", [True, False])
def test_a_filter_does_not_find_damage_of_other_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_worth_it: bool, is_body: bool
) -> None:
    """Whether a scan or the ConsumeQueues are used, a wrong body of a row that is left out is not
    found, and a message without a size is passed where the entries vouch for what follows."""
    monkeypatch.setattr(queue_guide, "is_worth_it", lambda guide, begin: is_worth_it)
    root = build(tmp_path / "store", two_queues())
    with opened(root) as store:
        expected = [offset for offset, _ in store.scan(queue_id=0).items()]
        place = [offset for offset, _ in store.scan(queue_id=1).items()][2]
    harm(root, place, is_body=is_body)
    with opened(root) as store:
        (end,) = ends_of(store.plan_read(ReadFilter(queue_ids=frozenset([0]))))
        assert end is None or end.is_clean
        assert offsets_of(store.plan_read(ReadFilter(queue_ids=frozenset([0])))) == expected
        (end,) = ends_of(store.plan_read(ReadFilter(queue_ids=frozenset([1]))))
        assert end is not None
        assert end.offset == place, "wanted rows are checked"
    shutil.rmtree(root / "consumequeue")
    with opened(root) as store:
        found = offsets_of(store.plan_read(ReadFilter(queue_ids=frozenset([0]))))
        assert found == (expected if is_body else [offset for offset in expected if offset < place])


def harm(root: Path, place: int, *, is_body: bool) -> None:
    """Changes the body of the message at a physical offset, or its size."""
    file = sorted((root / "commitlog").iterdir())[place // FILE_SIZE]
    data, at = bytearray(file.read_bytes()), place % FILE_SIZE
    at = data.index(b"0123456789", at) if is_body else at
    data[at : at + 4] = b"\xff" * 4
    file.write_bytes(data)
