"""How a `MessageStore` ends: in a forked child, while threads put, twice at once, after a failed
fsync."""

from __future__ import annotations

import errno
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from logdex.errors import LogClosedError, StorageError
from logdex.io.env import Env, WriteFile
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.recover.job import recover
from logdex.testing import Fault, FaultEnv
from tests.directories import contents
from tests.unit.rocketmq.message_store.open_stores import open_store, require_sound

_FORK = """
import os, sys
from logdex.errors import LogInUseError
from logdex.rocketmq import Consumer, Message, MessageStore

def refused(use):
    try:
        use()
    except LogInUseError:
        return True
    return False

path = sys.argv[1]
store = MessageStore.open(path, background=False, mapped_file_size_commit_log=1 << 20)
store.put_message(Message("T", b"parent", keys="k"))
held = store._dispatch.lock
held.acquire()
child = os.fork()
if not child:
    wrong = [
        store.put_message(Message("T", b"child", queue_id=0)).is_stored,
        not refused(store.dispatch),
        not refused(store.flush),
        not refused(store.wait_dispatched),
        not refused(store.topics),
        not refused(lambda: store.get_message("T", 0, 0)),
        not refused(lambda: store.create_topic("U")),
        not refused(lambda: MessageStore.open(path)),
    ]
    for use in (
        lambda: store.queues(),
        lambda: store.query("T", "k"),
        lambda: store.scan("T"),
        lambda: store.look_message_by_offset(0),
        lambda: store.get_offset_in_queue_by_time("T", 0, 0),
        store.pending_transactions,
        store.delay_progress,
        store.deliver_due,
        lambda: Consumer(store, "G", "T"),
    ):
        wrong[-1] |= not refused(use)
    store.close()
    os._exit(sum(1 << place for place, each in enumerate(wrong) if each))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
held.release()
assert store.put_message(Message("T", b"again", keys="k")).is_stored
store.close()
sys.exit(code)
"""


def test_a_forked_child_neither_writes_nor_reads(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    subprocess.run([sys.executable, "-c", _FORK, path], check=True, timeout=120)
    with MessageStore.open(path) as store:
        assert store.load_report.was_clean
        assert [message.body for message in store.query_message("T", "k").messages] == [b"again", b"parent"]


@pytest.mark.parametrize("flush", ["sync", "async"])
def test_threads_put_while_the_store_is_closed(flush: str, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", flush=flush, background=True)
    known: list[set[int]] = [set() for _ in range(4)]
    begun = threading.Barrier(5)

    def put(mine: set[int]) -> None:
        begun.wait()
        while True:
            found = store.put_message(Message("orders", b"x" * 50, keys="k"))
            if found.status is PutMessageStatus.SERVICE_NOT_AVAILABLE:
                return
            assert found.is_stored
            mine.add(found.physical_offset)

    threads = [threading.Thread(target=put, args=(mine,)) for mine in known]
    closers = [threading.Thread(target=store.close) for _ in range(3)]
    for thread in threads:
        thread.start()
    begun.wait()
    while store.max_phy_offset < 8_000:
        pass
    for thread in closers:
        thread.start()
    for thread in [*threads, *closers]:
        thread.join(60)
        assert not thread.is_alive()
    with open_store(tmp_path / "store") as store:
        assert store.load_report.was_clean
        found = {message.physical_offset for message in store.query_message("orders", "k").messages}
        assert found == set().union(*known)
    require_sound(tmp_path / "store")


@pytest.mark.parametrize("part", ["consumequeue", "checkpoint"])
def test_after_a_failed_fsync_of_what_is_derived_nothing_vouches_for_it(part: str, tmp_path: Path) -> None:
    """The next fsync of that file would succeed, although what was written may be lost."""
    env = FaultEnv(str(tmp_path))
    root = tmp_path / "store"
    store = open_store(root, env=env)
    for turn in range(9):
        store.put_message(Message("orders", b"x", keys=f"k{turn}"))
    store.dispatch()
    before = StoreCheckpoint.read(root / "checkpoint")
    at = 2 if part == "consumequeue" else 1 + sum(1 for _ in root.glob("consumequeue/*/*/*")) + 1
    env.fault = Fault(at, errno.EIO, frozenset({"sync"}))
    with pytest.raises(StorageError, match=f"/{part}"):
        store.flush()
    with pytest.raises(StorageError):
        store.flush()
    if part == "consumequeue":
        assert StoreCheckpoint.read(root / "checkpoint") == before
    assert store.put_message(Message("orders", b"x", keys="k9")).is_stored  # the log itself is sound
    store.close()
    with open_store(root) as store:
        assert not store.load_report.was_clean
        assert all(len(store.query_message("orders", f"k{turn}").messages) == 1 for turn in range(10))
    require_sound(root)


def test_a_closed_store_is_not_flushed_nor_dispatched(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    store.put_message(Message("orders"))
    store.close()
    store.close()
    for use in (store.flush, store.dispatch, store.flush_log, store._dispatch.run_batch):
        with pytest.raises(LogClosedError):
            use()


@pytest.mark.parametrize(
    ("version", "shown"),
    [("4.9.7", "4.9.8"), ("5.1.0", "5.1.4"), ("5.3.3", "5.3.3"), ("5.4.0", "5.5.0"), ("5.5.0", "5.5.0")],
)
def test_a_closed_store_shows_which_version_wrote_it(version: str, shown: str, tmp_path: Path) -> None:
    """Also where the IndexFiles show nothing, because no message has a tag: as the last version
    with the same rules."""
    with open_store(tmp_path, rocketmq_version=version) as store:
        store.put_message(Message("T", b"x", keys="k"))
    config = resolve_config(str(tmp_path))
    assert config.dialect.version == shown
    assert not config.assumed


@pytest.mark.parametrize(("version", "has_offset"), [("5.4.0", False), ("5.5.0", True)])
def test_the_checkpoint_has_the_fields_of_its_version(version: str, has_offset: bool, tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    with open_store(store, rocketmq_version=version) as opened:
        opened.put_message(Message("T", b"x", keys="k"))
    recover(str(store), str(copy), resolve_config(str(store), rocketmq_version=version), sync=False)
    for root in (store, copy):
        checkpoint = StoreCheckpoint.read(str(root / "checkpoint"))
        assert checkpoint.logics_msg_timestamp_ms > 0
        assert has_offset or checkpoint.logics_physical_offset == 0


def test_keys_of_an_index_file_that_was_removed_are_derived_again(tmp_path: Path) -> None:
    """A broker that is started on an open store removes the newest IndexFile, and makes one of its
    own for what it finds, before it looks at the lock."""
    with open_store(tmp_path / "store") as store:
        store.put_message(Message("orders", b"x", keys="k0", queue_id=0))
        store.dispatch()
        store.flush()
        [path] = (tmp_path / "store" / "index").iterdir()
        data = path.read_bytes()
        path.unlink()
        (path.parent / f"{int(path.name) + 1}").write_bytes(data)
        for number in range(1, 20):
            store.put_message(Message("orders", b"x", keys=f"k{number}", queue_id=0))
        store.dispatch()
    with open_store(tmp_path / "store") as store:
        for number in range(20):
            found = store.query_message("orders", f"k{number}")
            assert (len(found.messages), found.complete) == (1, True)
    require_sound(tmp_path / "store")


class _NoWriting(Env):
    """May not write files of the CommitLog."""

    def open_write(self, path: str, *, exclusive: bool = False) -> WriteFile:
        if "/commitlog/" in path:
            raise StorageError("permission denied", path=path, errno=errno.EACCES)
        return super().open_write(path, exclusive=exclusive)


def test_a_store_that_may_not_be_written_stays_closed(tmp_path: Path) -> None:
    with open_store(tmp_path / "store") as store:
        assert store.put_message(Message("orders", b"x")).is_stored
    before = contents(tmp_path / "store")
    with pytest.raises(StorageError, match="permission denied"):
        open_store(tmp_path / "store", env=_NoWriting())
    assert contents(tmp_path / "store") == before
