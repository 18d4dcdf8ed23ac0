"""The lock of a broker on its store: refused while another holds it, and kept whatever else this
process does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import logdex
from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.rocketmq import Consumer, LocalFileOffsetStore, Message, StoreConfig
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.store_files import StoreFiles
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover import recover
from logdex.rocketmq.verify import verify
from tests.unit.io.locks import descriptors, held_elsewhere, is_free_elsewhere
from tests.unit.rocketmq.message_store.open_stores import SIZES, open_store

CONFIG = StoreConfig(**SIZES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").write_bytes(b"lock")
    return tmp_path / "store"


def test_it_is_held_for_the_block_and_no_longer(root: Path) -> None:
    with broker_lock(str(root)):
        assert not is_free_elsewhere(root / "lock")
    assert is_free_elsewhere(root / "lock")
    with pytest.raises(ZeroDivisionError), broker_lock(str(root)):
        assert 1 / 0
    assert is_free_elsewhere(root / "lock")
    assert (root / "lock").read_bytes() == b"lock"


def test_a_running_broker_is_refused(root: Path) -> None:
    refused = pytest.raises(UsageError, match="a broker runs on this store")
    with held_elsewhere(root / "lock", size_bytes=1), refused, broker_lock(str(root)):
        pass


def test_another_message_store_is_told_from_a_broker(root: Path) -> None:
    refused = pytest.raises(UsageError, match="another process has it open as a MessageStore")
    with held_elsewhere(root / "lock"), refused, broker_lock(str(root)):
        pass


def test_looks_at_an_own_store_leave_no_descriptor_of_its_lock_open(tmp_path: Path) -> None:
    """Closing one would drop the lock, so that each that is opened stays open until the store is
    closed."""
    root = tmp_path / "own"
    with open_store(root) as store:
        for number in range(20):
            store.put_message(Message("orders", b"%d" % number, keys="k", queue_id=0))
        store.dispatch()
        before = descriptors(root / "lock")
        for number in range(3):
            offsets = LocalFileOffsetStore(tmp_path / f"offsets-{number}.json")
            assert verify(str(root), CONFIG).is_sound
            with logdex.open_store(root, **SIZES) as snapshot:
                assert len(list(snapshot.scan())) == len(snapshot.query("orders", "k")) == 20
            with Consumer(root, "follower", "orders", mode="broadcasting", offset_store=offsets) as consumer:
                assert len(consumer.poll(30)) == 20
            rebuild(str(root), str(tmp_path / f"rebuilt-{number}"), CONFIG, sync=False)
            recover(str(root), str(tmp_path / f"recovered-{number}"), CONFIG, sync=False)
            assert descriptors(root / "lock") == before
        assert not is_free_elsewhere(root / "lock")


def test_a_store_without_a_lock_file_gets_none(root: Path) -> None:
    (root / "lock").unlink()
    with broker_lock(str(root)):
        assert list(root.iterdir()) == []


def paths_of(root: Path) -> list[str]:
    """Four paths of one store."""
    (root.parent / "link").symlink_to(root)
    (root.parent / "other").mkdir()
    os.link(root / "lock", root.parent / "other" / "lock")
    return [str(root), f"{root}/", os.path.relpath(root), str(root.parent / "link"), str(root.parent / "other")]


def test_a_second_one_in_this_process_is_refused_and_takes_nothing_from_the_first(root: Path) -> None:
    with broker_lock(str(root)):
        for path in paths_of(root):
            with pytest.raises(UsageError, match="this process"), broker_lock(path):
                pass
            assert not is_free_elsewhere(root / "lock"), path


def test_a_second_one_of_another_thread_is_refused(root: Path) -> None:
    said: list[str] = []

    def again() -> None:
        try:
            with broker_lock(str(root)):
                said.append("taken")
        except UsageError as error:
            said.append(error.message)

    with broker_lock(str(root)):
        thread = threading.Thread(target=again)
        thread.start()
        thread.join(20)
        assert len(said) == 1
        assert "this process" in said[0]
        assert not is_free_elsewhere(root / "lock")
    again()
    assert said[1] == "taken"


def test_reading_the_lock_file_does_not_give_the_lock_up(root: Path) -> None:
    env = Env()
    with broker_lock(str(root)):
        assert env.read_file(str(root / "lock"), 100) == b"lock"
        assert StoreFiles.read(str(root)).has_lock
        assert not is_free_elsewhere(root / "lock")
        with env.open_write(str(root / "lock")) as file:
            file.write_at(0, b"lock")
        assert not is_free_elsewhere(root / "lock")
    assert is_free_elsewhere(root / "lock")


_FORK = """
import os, sys
from logdex.errors import UsageError
from logdex.rocketmq.files.broker_lock import broker_lock

def refused(root):
    try:
        with broker_lock(root):
            return ""
    except UsageError as error:
        return error.message

root = sys.argv[1]
with broker_lock(root):
    child = os.fork()
    if not child:
        os._exit("another process has it open" not in refused(root))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "this process" in refused(root)
"""


def test_a_forked_child_does_not_hold_it(root: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORK, str(root)], check=True, timeout=60)
