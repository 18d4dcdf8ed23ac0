"""Opening a store whose files were lost, cut, damaged or written by a process that was killed."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import CorruptError, MissingFileError, UnsupportedLayoutError, UsageError
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.message_store.closed_state import FILE_NAME
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.verify import verify
from tests.directories import contents
from tests.examples import cases
from tests.unit.rocketmq.message_store.open_stores import SIZES, crash, open_store, require_sound
from tests.unit.rocketmq.small_stores import CONFIG, build, message

COUNT = 90


def fill(store: MessageStore, count: int = COUNT) -> None:
    for turn in range(count):
        put = store.put_message(Message("orders", bytes(40), keys=f"k{turn}", queue_id=turn % 3))
        assert put.is_stored


def make(root: Path, *, ends: str = "closed") -> dict[str, bytes]:
    """A store, closed or left by a killed process. Returns what is derived in it, once it was
    closed."""
    store = open_store(root)
    fill(store)
    store.dispatch()
    if ends == "closed":
        store.close()
    else:
        crash(store)
        shutil.copytree(root, root.parent / "closed")
        open_store(root.parent / "closed").close()
    return derived(root if ends == "closed" else root.parent / "closed")


def derived(root: Path) -> dict[str, bytes]:
    return {
        name: data for name, data in contents(root).items() if name.startswith(("consumequeue/", "index/")) and data
    }


def require_whole(root: Path, expected: dict[str, bytes]) -> None:
    """Everything is there again, byte for byte, and the store goes on."""
    was_clean = not (root / "abort").exists()
    with open_store(root) as store:
        assert store.load_report.was_clean == was_clean
        assert store.max_phy_offset == store.load_report.log_end_offset
    assert derived(root) == expected
    with open_store(root) as store:
        assert store.load_report.was_clean
        assert store.load_report.queues_from == store.load_report.index_from == store.max_phy_offset
        for turn in range(COUNT):
            assert len(store.query_message("orders", f"k{turn}").messages) == 1
        assert [queue.max_offset for queue in store.queues()] == [COUNT // 3] * 3
        assert store.put_message(Message("orders", queue_id=1)).queue_offset == COUNT // 3
    require_sound(root)


def lose(name: str) -> Callable[[Path], None]:
    def harm(root: Path) -> None:
        path = sorted(root.glob(name))[0]
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return harm


def cut(name: str, size: int) -> Callable[[Path], None]:
    def harm(root: Path) -> None:
        path = sorted(root.glob(name))[-1]
        path.write_bytes(path.read_bytes()[:size])

    return harm


def zero(name: str, start: int, end: int) -> Callable[[Path], None]:
    def harm(root: Path) -> None:
        path = sorted(root.glob(name))[-1]
        data = path.read_bytes()
        path.write_bytes(data[:start] + bytes(len(data[start:end])) + data[end:])

    return harm


HARMS = {
    "all queues": lose("consumequeue"),
    "one queue": lose("consumequeue/orders/1"),
    "a queue's last file": cut("consumequeue/orders/2/*", 0),
    "a queue's last entries": zero("consumequeue/orders/2/*", 60, 200),
    "a queue's first file": lose("consumequeue/orders/1/0*"),
    "a file in a queue's middle": lose("consumequeue/orders/1/*200"),
    "half a queue's file": cut("consumequeue/orders/0/*", 33),
    "all IndexFiles": lose("index"),
    "the first IndexFile": lose("index/*"),
    "half an IndexFile": cut("index/*", 700),
    "an empty IndexFile": cut("index/*", 0),
    "the checkpoint": lose("checkpoint"),
    "half the checkpoint": cut("checkpoint", 30),
    "the checkpoint's numbers": zero("checkpoint", 0, 48),
    "the topics": lose("config"),
    "the lock": lose("lock"),
    "nothing": lambda root: None,
}


@pytest.mark.parametrize(("ends", "harm"), cases(itertools.product(["closed", "killed"], HARMS), 2))
def test_what_is_lost_is_derived(harm: str, ends: str, tmp_path: Path) -> None:
    root = tmp_path / "store"
    expected = make(root, ends=ends)
    HARMS[harm](root)
    require_whole(root, expected)


@pytest.mark.parametrize(
    "harm", [zero("consumequeue/orders/2/*", 180, 200), lose("index")], ids=["the log's last entry", "the index"]
)
def test_what_is_lost_of_a_store_that_a_broker_closed(harm: Callable[[Path], None], tmp_path: Path) -> None:
    """No broker notes what its store had: the log alone shows it."""
    root = tmp_path / "store"
    expected = make(root)
    (root / FILE_NAME).unlink()
    harm(root)
    assert derived(root) != expected
    require_whole(root, expected)


@pytest.mark.parametrize("full", [1, 2])
def test_a_lost_index_file_before_an_empty_one(full: int, tmp_path: Path) -> None:
    """A file is there before its first entry, as soon as the one before is full. Its header goes on
    where that ends."""
    root, keys = tmp_path / "store", 59 * full
    with open_store(root, unique_keys=False) as store:
        for turn in range(keys):
            store.put_message(Message("orders", keys=f"k{turn}", queue_id=0))
        store.put_message(Message("orders", queue_id=0, sys_flag=12))
    files = sorted((root / "index").iterdir())
    assert len(files) == full + 1
    expected = derived(root)
    files[0].unlink()
    with open_store(root, unique_keys=False) as store:
        for turn in range(keys):
            assert len(store.query_message("orders", f"k{turn}").messages) == 1
        store.put_message(Message("orders", keys="more", queue_id=0))
        store.dispatch()
        assert len(store.query_message("orders", "more").messages) == 1
    names = sorted(name for name in expected if name.startswith("index/"))
    assert {name: derived(root)[name] for name in names[:full]} == {name: expected[name] for name in names[:full]}
    require_sound(root)


def test_a_torn_message_is_cut_and_reported(tmp_path: Path) -> None:
    """Its last page was not written; no CRC covers the properties that are in it. The pages are
    those of the file, whose size need not be a multiple of theirs."""
    root, size = tmp_path / "store", 6000
    store = open_store(root, mapped_file_size_commit_log=size)
    fill(store, 50)
    with open_store(tmp_path / "other") as other:
        least = other.put_message(Message("orders", keys="torn")).size_bytes
    end = store.max_phy_offset
    body = bytes((20 - end % size - least) % 512)
    put = store.put_message(Message("orders", body, keys="torn"))
    assert (put.physical_offset, (end % size + put.size_bytes) % 512) == (end, 20)
    crash(store)
    file = sorted((root / "commitlog").iterdir())[end // size]
    data, last = bytearray(file.read_bytes()), end % size + put.size_bytes
    data[last - 20 : last] = bytes(20)
    file.write_bytes(data)
    with open_store(root, mapped_file_size_commit_log=size) as store:
        assert (store.max_phy_offset, store.load_report.log_end_offset) == (end, end)
        assert store.load_report.cut_reason == "a torn message"
        assert not any(file.read_bytes()[end % size :])
        assert store.query_message("orders", "torn").messages == ()
        assert store.put_message(Message("orders")).physical_offset == end
    require_sound(root, mapped_file_size_commit_log=size)


def test_files_that_no_crash_leaves(tmp_path: Path) -> None:
    root = tmp_path / "store"
    make(root)
    second = root / "commitlog" / f"{4096:020d}"
    data = second.read_bytes()
    second.unlink()
    with pytest.raises((MissingFileError, UsageError)):
        open_store(root)
    second.write_bytes(data[:3000])
    with pytest.raises((CorruptError, UsageError)):
        open_store(root)
    second.write_bytes(data)
    shutil.rmtree(root / "commitlog")
    with pytest.raises(MissingFileError, match="CommitLog is missing"):
        open_store(root)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("dledger-n0/data", UnsupportedLayoutError),
        ("batchconsumequeue/topic", UnsupportedLayoutError),
        ("events-0/00000000000000000000.log", UsageError),
        ("00000000000000000000", UsageError),
        ("notes.txt", UsageError),
    ],
)
def test_what_is_no_store_is_left_alone(name: str, error: type[Exception], tmp_path: Path) -> None:
    (tmp_path / "place" / name).parent.mkdir(parents=True)
    (tmp_path / "place" / name).write_bytes(b"x")
    with pytest.raises(error):
        open_store(tmp_path / "place")
    assert contents(tmp_path / "place") == {name: b"x"}


def test_the_checkpoint_moves_on(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root) as store:
        fill(store, 60)
        store.dispatch()
        store.flush()
        checkpoint = StoreCheckpoint.read(root / "checkpoint")
        assert checkpoint.logics_physical_offset == store.max_phy_offset
        last = store.look_message_by_offset(store.put_message(Message("orders")).physical_offset)
        assert checkpoint.physic_msg_timestamp_ms == checkpoint.logics_msg_timestamp_ms < last.store_timestamp_ms
        assert 0 < checkpoint.index_msg_timestamp_ms <= checkpoint.logics_msg_timestamp_ms
        assert (root / "abort").exists()


def test_a_lost_queue_that_has_the_first_message_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        for queue_id in (1, 0, 0):
            store.put_message(Message("orders", queue_id=queue_id))
    shutil.rmtree(tmp_path / "store" / "consumequeue" / "orders" / "1")
    with open_store(tmp_path / "store") as store:
        assert [queue.max_offset for queue in store.queues()] == [2, 1]


def test_what_a_deleted_topic_left_in_the_log_lacks_nothing(tmp_path: Path) -> None:
    """Neither before the topic is made again nor afterwards is the whole log scanned at each clean
    opening."""
    root = tmp_path / "store"
    with open_store(root) as store:
        for turn in range(6):
            store.put_message(Message("TV"[turn % 2], keys="k", queue_id=0))
    config = root / "config" / "topics.json"
    for _ in range(2):
        raw = json.loads(config.read_text())
        del raw["topicConfigTable"]["T"]
        config.write_text(json.dumps(raw))
        shutil.rmtree(root / "consumequeue" / "T")
        with open_store(root) as store:
            assert store.load_report.queues_from == store.load_report.log_end_offset
            assert [(queue.topic, queue.max_offset) for queue in store.queues()] == [(b"V", 3)]
            assert store.put_message(Message("T", keys="k", queue_id=0)).queue_offset == 0
        with open_store(root) as store:
            assert store.load_report.queues_from == store.load_report.log_end_offset
            assert [(queue.topic, queue.max_offset) for queue in store.queues()] == [(b"T", 1), (b"V", 3)]
        require_sound(root)


@pytest.mark.parametrize("lost", ["consumequeue", "none"])
def test_a_queue_with_gaps_is_derived_as_by_a_rebuild(lost: str, tmp_path: Path) -> None:
    """As in a recovered store. The broker's engine would put later entries at other positions."""
    root = build(tmp_path / "store", [message(offset) for offset in (5, 6, 9, 30)])
    expected = {name: data for name, data in contents(root).items() if name.startswith("consumequeue/")}
    if lost != "none":
        shutil.rmtree(root / lost)
    sizes = {name: getattr(CONFIG, name) for name in SIZES}
    with open_store(root, **sizes) as store:
        found = store.get_message("TopicA", 0, 7, 9)
        assert (found.status, len(found.messages)) == (GetMessageStatus.FOUND, 2)
    assert {name: data for name, data in contents(root).items() if name.startswith("consumequeue/")} == expected


@pytest.mark.parametrize("size", [400, 100, 6_000_000])
def test_another_size_of_queue_files_is_refused_before_anything_is_written(size: int, tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root) as store:
        for queue_id in (0, 1):
            assert store.put_message(Message("orders", b"x", queue_id=queue_id)).is_stored
    before = contents(root)
    with pytest.raises(UsageError, match=f"files have 200 bytes, but .* is {size}|{size} is stated"):
        open_store(root, mapped_file_size_consume_queue=size)
    assert contents(root) == before


@pytest.mark.parametrize("harm", ["short", "long", "odd", "gap"])
@pytest.mark.parametrize("ends", ["closed", "killed"])
def test_a_damaged_queue_whose_messages_have_expired_goes_on_where_it_ended(
    ends: str, harm: str, tmp_path: Path
) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    for _ in range(25):
        assert store.put_message(Message("once", queue_id=0)).is_stored
    fill(store)
    store.dispatch()
    store.delete_expired(0, now_ms=1 << 50)
    assert store.get_message("once", 0, 0).min_offset == 25
    store.close() if ends == "closed" else crash(store)
    files = sorted((root / "consumequeue" / "once" / "0").iterdir())
    if harm == "gap":
        shutil.copy(files[-1], files[0].with_name(f"{0:020d}"))
    else:
        data = files[-1].read_bytes()
        files[-1].write_bytes(data + b"x" if harm == "long" else data[: 101 if harm == "odd" else 100])
    with open_store(root) as store:
        report = store.load_report
        assert (report.mended_queues, report.removed_queues) == ([str(root / "consumequeue" / "once" / "0")], [])
        assert store.put_message(Message("once", b"again", queue_id=0)).queue_offset == 25
        store.dispatch()
        assert store.get_message("once", 0, 25).messages[0].body == b"again"
    require_sound(root)
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset


def test_a_newer_version_is_an_upgrade_and_an_older_one_is_refused(tmp_path: Path) -> None:
    for version in ("4.9.7", "5.5.0"):
        with open_store(tmp_path, rocketmq_version=version) as store:
            for turn in range(5):
                store.put_message(Message("T", b"x", keys=f"{version}-{turn}", tags="a"))
            assert [len(store.query_message("T", f"{version}-{turn}").messages) for turn in range(5)] == [1] * 5
    require_sound(tmp_path)
    with pytest.raises(UsageError, match=r"rocketmq-version 4\.9\.7: the IndexFile holds tags"):
        open_store(tmp_path, rocketmq_version="4.9.7")


@pytest.mark.parametrize("slots_and_entries", [(5_000_000, 20_000_000), (500, 2_000)], ids=["default", "small"])
def test_killed_between_making_its_first_index_file_and_filling_it(
    slots_and_entries: tuple[int, int], tmp_path: Path
) -> None:
    """The file shows no sizes, and nobody has stated them since."""
    root = tmp_path / "store"
    make(root, ends="killed")
    shutil.rmtree(root / "index")
    (root / "index").mkdir()
    with (root / "index" / "20260101000000000").open("wb") as file:
        file.truncate(40 + 4 * slots_and_entries[0] + 20 * slots_and_entries[1])
    with logdex.open_store(root) as snapshot:
        found = snapshot.query_message("orders", "k7")
        assert not found.complete
        assert len(snapshot.query_message("orders", "k7", scan_missing=True).messages) == 1
    assert [finding.message for finding in verify(str(root), snapshot.config).findings] == []
    with MessageStore.open(root) as store:
        assert store.load_report.index_from == 0
        store.wait_dispatched()
        assert all(len(store.query_message("orders", f"k{turn}").messages) == 1 for turn in range(COUNT))
    with logdex.open_store(root) as snapshot:
        assert verify(str(root), snapshot.config).is_sound


def test_the_program_may_change_its_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with MessageStore.open("store", **SIZES) as store:
        assert store.put_message(Message("orders", b"", queue_id=0)).is_stored
        monkeypatch.chdir(tmp_path / "there")
        for turn in range(COUNT):
            assert store.put_message(Message(f"topic-{turn % 3}", bytes(40), queue_id=0)).is_stored
        store.wait_dispatched()
    assert list((tmp_path / "there").iterdir()) == []
    require_sound(tmp_path / "here" / "store")


@pytest.mark.parametrize(
    "settings",
    [
        {"rocketmq_version": "3.2"},
        {"rocketmq_version": 5.5},
        {"mapped_file_size_commit_log": -5},
        {"mapped_file_size_commit_log": 10},
        {"mapped_file_size_commit_log": 99},
        {"first_offset": 5},
        {"max_index_num": -1},
    ],
    ids=str,
)
def test_wrong_settings_leave_no_directory(settings: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        MessageStore.open(tmp_path / "store", **settings)
    assert not (tmp_path / "store").exists()


def test_the_smallest_files_have_room_for_the_shortest_message(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store", mapped_file_size_commit_log=100, unique_keys=False) as store:
        assert [store.put_message(Message("t", b"", queue_id=0)).physical_offset for _ in range(2)] == [0, 100]
