from __future__ import annotations

import errno
import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from logdex.errors import CorruptError, LogInUseError, StorageError, UsageError
from logdex.io.env import Env, ReadFile
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore
from logdex.rocketmq.files.broker_lock import broker_runs
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.settings.dialect import Dialect
from tests.golden import rocketmq as golden


def manager(root: Path, version: str = "5.5.0") -> ConsumerOffsetManager:
    return ConsumerOffsetManager(root, dialect=Dialect.of(version), clock_ms=lambda: 1_700_000_000_000)


def test_what_is_committed_is_read(tmp_path: Path) -> None:
    offsets = manager(tmp_path)
    assert offsets.query_offset("G", "orders", 0) == -1
    offsets.commit_offset("G", "orders", 0, 17)
    offsets.commit_offsets("G", {(b"orders", 1): 3, (b"%RETRY%G", 0): 2})
    offsets.commit_offset("H", "orders", 0, 1)
    assert manager(tmp_path).query_offsets("G", "orders") == {0: 17, 1: 3}
    assert offsets.which_topic_by_consumer("G") == {b"orders", b"%RETRY%G"}
    assert offsets.which_group_by_topic("orders") == {b"G", b"H"}
    offsets.clean_offset("G", "orders")
    assert offsets.which_topic_by_consumer("G") == {b"%RETRY%G"}
    offsets.clean_offset("G")
    assert offsets.which_topic_by_consumer("G") == set()
    assert offsets.query_offset("H", "orders", 0) == 1


def test_the_file_is_the_brokers(tmp_path: Path) -> None:
    manager(tmp_path).commit_offset("G", "orders", 0, 17)
    path = tmp_path / "config" / "consumerOffset.json"
    assert path.read_text() == (
        '{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"stateVersion":0,\n\t\t"timestamp":1700000000000\n\t},\n'
        '\t"groupTopicMap":{\n\t\t"G":[\n\t\t\t"orders"\n\t\t]\n\t},\n'
        '\t"offsetTable":{\n\t\t"orders@G":{\n\t\t\t0:17\n\t\t}\n\t},\n\t"pullOffsetTable":{}\n}'
    )
    manager(tmp_path / "4", "4.9.7").commit_offset("G", "orders", 0, 17)
    path = tmp_path / "4" / "config" / "consumerOffset.json"
    assert path.read_text() == '{\n\t"offsetTable":{\n\t\t"orders@G":{0:17\n\t\t}\n\t}\n}'


def test_the_earlier_contents_are_kept(tmp_path: Path) -> None:
    offsets = manager(tmp_path)
    for offset in (1, 2, 3):
        offsets.commit_offset("G", "orders", 0, offset)
    (tmp_path / "config" / "consumerOffset.json").write_bytes(b"")
    assert offsets.query_offset("G", "orders", 0) == 2
    offsets.commit_offset("G", "orders", 1, 9)
    assert offsets.query_offsets("G", "orders") == {0: 2, 1: 9}
    (tmp_path / "config" / "consumerOffset.json").write_bytes(b"{")
    (tmp_path / "config" / "consumerOffset.json.bak").unlink()
    with pytest.raises(CorruptError):
        offsets.query_offset("G", "orders", 0)


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_file_that_cannot_be_read_now_is_not_replaced_by_its_backup(tmp_path: Path, code: int) -> None:
    for offset in (3, 5):
        manager(tmp_path).commit_offset("G", "T", 0, offset)

    class Refusing(Env):
        """Refuses to open the file, which is sound."""

        def open_read(self, path: str) -> ReadFile:
            if path.endswith("/consumerOffset.json"):
                raise StorageError("refused", path=path, errno=code)
            return super().open_read(path)

    local = tmp_path / "config" / "consumerOffset.json"
    with pytest.raises(StorageError, match=r"consumerOffset\.json: refused"):
        ConsumerOffsetManager(tmp_path, env=Refusing()).commit_offset("G", "T", 1, 9)
    with pytest.raises(StorageError, match=r"consumerOffset\.json: refused"):
        LocalFileOffsetStore(local, env=Refusing()).persist("T", {1: 9})
    assert manager(tmp_path).query_offsets("G", "T") == {0: 5}


def test_a_brokers_file_is_gone_on_with(tmp_path: Path) -> None:
    root = golden.unpack("tiny-broker", tmp_path / "store")
    offsets = manager(root)
    before = offsets.read()
    offsets.commit_offset("G_all", "Orders", 0, 5)
    after = offsets.read()
    assert after.offsets == {**before.offsets, (b"Orders", b"G_all"): {0: 5, 1: 11, 2: 13, 3: 13}}
    assert after.file.raw["pullOffsetTable"] == before.file.raw["pullOffsetTable"]
    assert set(after.file.raw["groupTopicMap"]) == {"G_tags", "G_all", "CID_RMQ_SYS_TRANS"}


def test_a_group_starts_once(tmp_path: Path) -> None:
    offsets = manager(tmp_path)
    offsets.start_at("G", "orders", {0: 5, 1: 6})
    offsets.start_at("G", "orders", {0: 50, 1: 60, 2: 70})
    assert offsets.query_offsets("G", "orders") == {0: 5, 1: 6}


@pytest.mark.parametrize("group", ["", "a b", "a@b", "a/b", "x" * 256])
def test_a_group_has_a_name_that_the_broker_accepts(tmp_path: Path, group: str) -> None:
    with pytest.raises(UsageError, match="group"):
        manager(tmp_path).commit_offset(group, "orders", 0, 1)


@pytest.mark.parametrize(("queue_id", "offset"), [(-1, 0), (0, -1), (1 << 31, 0), (0, 1 << 63)])
def test_no_store_has_such_an_offset(tmp_path: Path, queue_id: int, offset: int) -> None:
    with pytest.raises(UsageError, match="committed"):
        manager(tmp_path).commit_offset("G", "orders", queue_id, offset)


def commit_many(root: str, group: str) -> None:
    for offset in range(1, 21):
        ConsumerOffsetManager(root).commit_offset(group, "orders", 0, offset)


def test_threads_and_processes_lose_no_commit(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers: list[threading.Thread | multiprocessing.process.BaseProcess] = []
    workers += [context.Process(target=commit_many, args=(str(tmp_path), f"P{number}")) for number in range(2)]
    workers += [threading.Thread(target=commit_many, args=(str(tmp_path), f"T{number}")) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = manager(tmp_path).read().offsets
    assert found == {(b"orders", name): {0: 20} for name in (b"P0", b"P1", b"T0", b"T1")}


BROKER = """
import fcntl, sys
lock = open(sys.argv[1], "r+b")
fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)
print("locked", flush=True)
sys.stdin.read()
"""


def test_nothing_is_committed_beside_a_broker(tmp_path: Path) -> None:
    offsets = manager(tmp_path)
    with MessageStore.open(tmp_path, background=False):
        offsets.commit_offset("G", "orders", 0, 1)
        assert not broker_runs(str(tmp_path))
    command = [sys.executable, "-c", BROKER, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stdout.readline() == b"locked\n"
        assert broker_runs(str(tmp_path))
        with pytest.raises(LogInUseError, match="broker runs"):
            offsets.commit_offset("G", "orders", 0, 2)
        assert broker.stdin is not None
        broker.stdin.close()
    assert offsets.query_offset("G", "orders", 0) == 1


def other_process_runs(root: str) -> str:
    code = f"from logdex.rocketmq.files.broker_lock import broker_runs; print(broker_runs({root!r}))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_another_processs_message_store_is_no_broker(tmp_path: Path) -> None:
    with MessageStore.open(tmp_path, background=False):
        assert other_process_runs(str(tmp_path)) == "False"
