"""What is too old is removed: CommitLog, then queues and IndexFiles; what is left is whole, at any
moment."""

from __future__ import annotations

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import LogClosedError, MissingFileError, StorageError, StoreError, UsageError
from logdex.io.env import Env
from logdex.rocketmq import Message, MessageStore, StoreSnapshot
from logdex.rocketmq.message_store.services.retention import ExpiredFiles
from logdex.rocketmq.read.results import GetMessageResult, GetMessageStatus
from logdex.testing import Fault, FaultEnv, Killed
from tests.examples import some
from tests.unit.rocketmq.message_store.open_stores import NOW_MS, SIZES, open_store, require_sound

LATER_MS = 1 << 50
CHANGES = frozenset({"remove", "sync_dir"})


def fill(store: MessageStore, count: int, first: int = 0) -> None:
    for turn in range(first, first + count):
        message = Message("orders", b"body %d" % turn + bytes(200), keys=f"k{turn}", queue_id=turn % 2)
        assert store.put_message(message).is_stored
        if turn == 5:
            assert store.put_message(Message("once", b"", queue_id=0)).is_stored
    store.dispatch()


def make_old(root: Path, count: int) -> list[Path]:
    """Makes the first files of the CommitLog a day older than the test's clock."""
    files = sorted((root / "commitlog").iterdir())[:count]
    for path in files:
        os.utime(path, (NOW_MS / 1000 - 86400,) * 2)
    return files


def delete_old(store: MessageStore) -> ExpiredFiles:
    report: ExpiredFiles = store.delete_expired(hours=20, now_ms=NOW_MS)
    return report


def check_found(store: MessageStore, count: int) -> int:
    """Every message that the log still has is read, and found by its key, and nothing else is.
    Returns how many that are."""
    start = store.min_phy_offset
    with_message = 0
    for turn in range(count):
        found = store.query_message("orders", f"k{turn}")
        assert found.complete
        assert all(offset >= start for offset in found.phy_offsets)
        with_message += len(found.messages)
    infos = [each for each in store.queues() if each.topic == b"orders"]
    assert sum(each.max_offset for each in infos) == count
    read = [
        message
        for each in infos
        for offset in range(each.min_offset, each.max_offset, 5)
        for message in store.get_message("orders", each.queue_id, offset, 5).messages
    ]
    assert len({(message.queue_id, message.queue_offset) for message in read}) == with_message
    return with_message


def check_whole(store: MessageStore, count: int) -> None:
    """As `check_found`, and the minimum offsets are those of the messages that are left."""
    found = check_found(store, count)
    infos = [each for each in store.queues() if each.topic == b"orders"]
    assert sum(each.max_offset - each.min_offset for each in infos) == found
    for each in infos:
        messages = store.get_message("orders", each.queue_id, each.min_offset, 1000).messages
        assert [message.queue_offset for message in messages] == list(range(each.min_offset, each.max_offset))


def test_old_files_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "store"
    with open_store(root) as store:
        fill(store, 120)
        snapshot = logdex.open(str(root), **SIZES)
        old = make_old(root, 4)
        begin = store.look_message_by_offset(0)
        report = delete_old(store)
        assert report.commit_log_files == tuple(map(str, old))
        assert (report.min_phy_offset, store.min_phy_offset) == (4 * 4096, 4 * 4096)
        assert report.queue_files
        assert report.index_files
        assert not any(Path(path).exists() for path in report.queue_files + report.index_files)
        check_whole(store, 120)
        first = store.get_message("orders", 0, 0)
        assert (first.status, first.next_begin_offset) == (GetMessageStatus.OFFSET_TOO_SMALL, first.min_offset)
        with pytest.raises(MissingFileError):
            store.look_message_by_offset(0)
        assert store.query_message("orders", "k0").messages == ()
        assert delete_old(store) == ExpiredFiles((), (), (), 4 * 4096)
        assert store.get_message("once", 0, 0).status is GetMessageStatus.OFFSET_TOO_SMALL
        put = store.put_message(Message("once", b"again", queue_id=0))
        assert put.queue_offset == 1
        store.dispatch()
        assert store.get_message("once", 0, 1).messages[0].body == b"again"
        with snapshot:
            assert snapshot.get_message("orders", 0, 0).status in (  # type: ignore[union-attr]
                GetMessageStatus.MESSAGE_WAS_REMOVING,
                GetMessageStatus.OFFSET_FOUND_NULL,
                GetMessageStatus.OFFSET_TOO_SMALL,
            )
            with pytest.raises(StoreError):
                snapshot.look_message_by_offset(begin.physical_offset)  # type: ignore[union-attr]
    require_sound(root)
    with open_store(root) as store:
        assert store.load_report.queues_from == store.max_phy_offset
        assert store.min_phy_offset == 4 * 4096
        check_whole(store, 120)
        fill(store, 10, 120)
        check_whole(store, 130)
    require_sound(root)


def test_a_message_whose_file_was_removed_since(tmp_path: Path) -> None:
    """The queue's file is still there, and leads a snapshot that was opened before to a message
    that is gone. The store itself says where its queue begins."""
    sizes = {"mapped_file_size_consume_queue": 20_000}
    with open_store(tmp_path / "store", **sizes) as store:
        fill(store, 60)
        with StoreSnapshot(tmp_path / "store", **{**SIZES, **sizes}) as snapshot:
            for topic in ("once", "orders"):
                assert snapshot.get_message(topic, 0, 999).min_offset == 0  # reads no file of the log
            make_old(tmp_path / "store", 2)
            report = delete_old(store)
            assert (len(report.commit_log_files), report.queue_files) == (2, ())
            gone = snapshot.get_message("once", 0, 0)
            assert gone == GetMessageResult(GetMessageStatus.MESSAGE_WAS_REMOVING, 1, 0, 1)
            assert snapshot.get_columns("once", 0, 0).status is GetMessageStatus.MESSAGE_WAS_REMOVING
            own = store.get_message("once", 0, 0)
            assert own == GetMessageResult(GetMessageStatus.OFFSET_TOO_SMALL, 1, 1, 1)
            begin = store.get_message("orders", 0, 0).min_offset
            left = snapshot.get_message("orders", 0, 0, 1)
            assert (left.status, left.messages[0].queue_offset) == (GetMessageStatus.FOUND, begin)


@pytest.mark.parametrize(
    "limits", [{"hours": -1}, {"hours": "72"}, {"disk_ratio": -0.1}, {"disk_ratio": 80}, {"hours": float("nan")}]
)
def test_limits_that_are_none(limits: dict[str, Any], tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        fill(store, 60)
        make_old(tmp_path / "store", 2)
        with pytest.raises(UsageError, match=r"use a number from 0 on|it is a part of the disk"):
            store.delete_expired(**limits)
        assert store.min_phy_offset == 0


def test_the_newest_file_stays(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert store.delete_expired(0, now_ms=LATER_MS).commit_log_files == ()
        fill(store, 120)
        assert delete_old(store).commit_log_files == ()  # none is old
        assert store.delete_expired(0, now_ms=LATER_MS).min_phy_offset == store.max_phy_offset // 4096 * 4096
        check_whole(store, 120)
        fill(store, 100, 120)
        check_whole(store, 220)
    require_sound(tmp_path / "store")
    with pytest.raises(LogClosedError):
        store.delete_expired()


class FullDisk(Env):
    """A disk on which `files` files are too many."""

    def __init__(self, files: int) -> None:
        super().__init__()
        self.files = files

    def used_ratio(self, path: str) -> float:
        return 0.9 if len(self.list_dir(path)) > self.files else 0.5


def test_a_full_disk_does_not_wait_for_the_time(tmp_path: Path) -> None:
    with open_store(tmp_path / "store", env=FullDisk(4)) as store:
        fill(store, 120)
        assert store.delete_expired(None, disk_ratio=0.95).commit_log_files == ()
        before = len(list((tmp_path / "store" / "commitlog").iterdir()))
        assert len(store.delete_expired(None, disk_ratio=0.8).commit_log_files) == before - 4
        check_whole(store, 120)
    require_sound(tmp_path / "store")


def at_calls(tmp_path: Path, code: int | None) -> None:
    """Kills the process, or refuses the call, at a removal or a sync of a directory: at some of
    them, or at each."""
    with open_store(tmp_path / "store") as store:
        fill(store, 40)
    make_old(tmp_path / "store", 2)
    calls = retain(shutil.copytree(tmp_path / "store", tmp_path / "0" / "store"), None)
    assert calls > 6
    for at in some(range(1, calls + 1), 4):
        home = tmp_path / str(at)
        shutil.copytree(tmp_path / "store", home / "store")
        retain(home / "store", Fault(at, code, CHANGES))
        place = home if code is not None else tmp_path / f"{at}-left" / str(at)
        with open_store(place / "store") as store:
            check_found(store, 40)
            delete_old(store)
            check_whole(store, 40)
        require_sound(place / "store")


def retain(root: Path, fault: Fault | None) -> int:
    """Removes old files from a store, with a fault. Of a process that is killed, what a power cut
    leaves is put beside it. Returns how many removals and syncs of directories there were."""
    env = FaultEnv(str(root.parent))
    store = open_store(root, env=env)
    before, env.fault, env._matching = env.count(CHANGES), fault, 0
    try:
        delete_old(store)
    except StorageError:
        check_found(store, 40)
        delete_old(store)
        check_whole(store, 40)
    except Killed:
        env.release()
        env.survivor(f"{root.parent}-left/{root.parent.name}", env.count())
        return 0
    calls = env.count(CHANGES) - before
    store.close()
    return calls


def test_a_kill_between_removals_leaves_a_whole_store(tmp_path: Path) -> None:
    at_calls(tmp_path, None)


def test_a_refused_removal_can_be_repeated(tmp_path: Path) -> None:
    at_calls(tmp_path, errno.EIO)


def test_readers_beside_retention(tmp_path: Path) -> None:
    problems: list[BaseException] = []
    with open_store(tmp_path / "store") as store:
        fill(store, 60)
        stopped = threading.Event()

        def read() -> None:
            try:
                while not stopped.is_set():
                    for queue_id in (0, 1):
                        at = store.get_message("orders", queue_id, 0, 8).next_begin_offset
                        for message in store.get_message("orders", queue_id, at, 8).messages:
                            assert message.body.startswith(b"body")
                    store.query_message("orders", "k3")
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for turn in range(60, 160, 20):
            fill(store, 20, turn)
            store.delete_expired(0, now_ms=LATER_MS)
        stopped.set()
        for thread in threads:
            thread.join()
        assert problems == []
        check_whole(store, 160)
    require_sound(tmp_path / "store")
