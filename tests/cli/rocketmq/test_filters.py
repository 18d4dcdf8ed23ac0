"""`cat --tail`, `--grep` and `--where` of RocketMQ's stores."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.rocketmq import Message, MessageStore, StoreSnapshot
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.split import ReadSplit
from tests.cli.helpers import end_of, run

COUNT, START_MS = 200, 1_700_000_000_000
SIZES: Any = {"mapped_file_size_commit_log": 16384, "mapped_file_size_consume_queue": 2000}
FLAGS = ("--mapped-file-size-commit-log", 16384, "--mapped-file-size-consume-queue", 2000)


def put(store: MessageStore, number: int, topic: str = "t") -> None:
    keys, tags = f"k{number % 7}", f"tag{number % 2}"
    store.put_message(
        Message(topic, b"body %d" % number, keys=keys, tags=tags, properties={"n": str(number)}, queue_id=number % 2)
    )


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 200 messages in two queues of one topic, and one of another; only read it."""
    root = tmp_path_factory.mktemp("filters") / "store"
    with MessageStore.open(str(root), **SIZES) as store:
        put(store, 0, "other")
        for number in range(COUNT):
            put(store, number)
    return root


def numbers(store: Path, *flags: object) -> list[int]:
    result = run("cat", store, "--topic", "t", *FLAGS, *flags, "--columns", "properties.n")
    assert result.exit_code == 0, result.stderr
    return [int(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("count", [0, 1, 5, COUNT])
def test_the_last_of_each_queue(store: Path, count: int) -> None:
    assert numbers(store, "--tail", count) == list(range(max(COUNT - 2 * count, 0), COUNT))
    assert numbers(store, "--tail", count, "--queue", 1) == list(range(1, COUNT, 2))[max(COUNT // 2 - count, 0) :]


def test_the_last_that_pass_the_filters(store: Path) -> None:
    assert numbers(store, "--tail", 1, "--grep", "body 1") == [198, 199]
    assert numbers(store, "--tail", 2, "--grep", "/n=[0-9]$/") == [6, 7, 8, 9]
    assert numbers(store, "--tail", 2, "--where", "tags = tag1") == [197, 199]
    assert numbers(store, "--tail", 9, "--offset", 98) == [196, 197, 198, 199]
    assert numbers(store, "--tail", 9, "--to", 0) == []
    assert numbers(store, "--tail", 2, "--limit", 3) == [196, 197, 198]


def test_grep_and_where(store: Path) -> None:
    assert numbers(store, "--grep", "KEYS=k3", "--where", "queue_offset < 9") == [3, 10, 17]
    assert numbers(store, "--grep", "/^tag1$/", "--tail", 1) == numbers(store, "--where", "tags = tag1", "--tail", 1)
    assert numbers(store, "--grep", "/^k3$/", "--where", "queue_offset < 9") == [3, 10, 17]
    assert numbers(store, "--where", "queue_id = 1", "--where", "properties.n >= 195") == [195, 197, 199]
    assert numbers(store, "--where", "keys = k0", "--limit", 2) == [0, 7]
    assert numbers(store, "--where", "topic = elsewhere") == []
    assert numbers(store, "--where", "queue_offset > 99999999999999999999999") == []


def test_a_tail_reads_backwards_from_the_end(store: Path) -> None:
    env = Env()
    with StoreSnapshot(str(store), env=env, **SIZES) as snapshot:
        snapshot.queues()
        before = env.counters.read_bytes + env.counters.mapped_bytes
        found = snapshot.get_tail("t", 1, 3)
        assert [message.body for _, message in found.messages] == [b"body 195", b"body 197", b"body 199"]
        assert env.counters.read_bytes + env.counters.mapped_bytes - before < 4096
        assert snapshot.get_tail("none", 0, 3).messages == []


def test_a_tail_passes_over_a_damaged_message_and_says_so(tmp_path: Path) -> None:
    with MessageStore.open(str(tmp_path), **SIZES) as store:
        for number in range(12):
            put(store, number)
    file = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(file.read_bytes())
    data[data.index(b"body 7")] ^= 1
    file.write_bytes(data)
    result = run("cat", tmp_path, *FLAGS, "--queue", 1, "--tail", 3, "--format", "%s ")
    assert (result.exit_code, result.stdout) == (1, "body 5 body 9 body 11 "), result.stderr
    assert "CRC" in result.stderr
    end = end_of("cat", tmp_path, *FLAGS, "--queue", 1, "--tail", 3, exit_code=1)
    assert (end["count"], end["is_complete"], len(end["problems"])) == (3, False, 1)
    assert end["problems"][0].startswith(f"{file}: byte ")


@pytest.mark.parametrize("tail", [(), ("--tail", COUNT)])
def test_the_last_object_names_what_a_broker_removed(
    tail: tuple[Any, ...], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    shutil.copytree(store, root)
    shutil.rmtree(root / "consumequeue")  # so that the tail is read from the log, too
    items = LogScan.items

    def passing_over(scan: LogScan) -> Iterator[tuple[int, StoredMessage]]:
        yield from items(scan)
        scan.trimmed.append("removed")

    monkeypatch.setattr(LogScan, "items", passing_over)
    end = end_of("cat", root, *FLAGS, *tail)
    assert (end["count"], end["is_complete"], end["deleted"]) == (COUNT + 1, True, ["removed"])


def test_a_tail_of_a_log_that_ends_in_damage_says_so(store: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(store, root)
    shutil.rmtree(root / "consumequeue")
    file = root / "commitlog" / f"{16384:020d}"
    data = bytearray(file.read_bytes())
    data[4] ^= 1  # the magic of the file's first message
    file.write_bytes(data)
    end = end_of("cat", root, *FLAGS, "--tail", 1, exit_code=1)
    assert (end["count"], end["is_complete"]) == (3, False)
    assert str(file) in end["problems"][-1]


def test_a_tail_that_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with MessageStore.open(str(tmp_path), **SIZES) as store:
        for number in range(6):
            put(store, number)
        store.dispatch()
        coming = iter(range(6, 9))  # one is put each time that the command waits
        monkeypatch.setattr(look_again, "pause", lambda: put(store, next(coming)))
        found = numbers(tmp_path, "--tail", 1, "--follow", "--limit", 4, "--where", "properties.n != 7")
    assert found == [4, 5, 6, 8]


def test_a_topic_without_a_consume_queue_is_named_and_its_tail_read_from_the_log(store: Path, tmp_path: Path) -> None:
    root = tmp_path / "store"
    shutil.copytree(store, root)
    shutil.rmtree(root / "consumequeue" / "t" / "1")
    assert numbers(root, "--tail", 2, "--queue", 1) == [197, 199]
    shutil.rmtree(root / "consumequeue" / "t")
    assert numbers(root, "--tail", 2) == [196, 197, 198, 199]
    result = run("cat", root, *FLAGS, "--topic", "t", "--tail", 1)
    assert "the topic t has no ConsumeQueue: the log is read" in result.stderr
    end = end_of("cat", root, *FLAGS, "--topic", "t", "--tail", 1)
    assert (end["count"], end["is_complete"]) == (2, True)
    assert end["problems"] == ["the topic t has no ConsumeQueue: the log is read, and logdex rebuild derives it"]
    looked = run("info", root, *FLAGS)
    assert "the topic t has messages, one at offset" in looked.stderr
    assert looked.exit_code == 1
    checked = run("verify", root, *FLAGS)
    assert "mend: logdex rebuild " in checked.stdout
    assert "--in-place instead replaces them" in checked.stderr
    assert run("info", store, *FLAGS).exit_code == 0
    shutil.rmtree(root / "consumequeue")
    assert numbers(root, "--tail", 2) == [196, 197, 198, 199]


@pytest.mark.parametrize(
    "flags",
    [
        ("--limit", 3),
        ("--where", "queue_offset = 1", "--limit", 1),
        ("--grep", "body 1", "--limit", 1),
        ("--where", "physical_offset < 600"),
    ],
)
def test_a_limit_or_a_filter_ends_the_reading(
    flags: tuple[Any, ...], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has several files; the first rows are in the first of them."""
    assert read_files(store, monkeypatch) == 3
    assert read_files(store, monkeypatch, *flags) == 1


def test_times_end_the_reading_if_the_clock_is_said_not_to_go_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(START_MS, START_MS + 1000))
    with MessageStore.open(str(tmp_path), clock_ms=lambda: next(times), background=False, **SIZES) as store:
        for number in range(COUNT):
            put(store, number)
    with StoreSnapshot(tmp_path) as snapshot:
        third = list(snapshot.scan())[2].store_timestamp_ms
    assert run("cat", tmp_path, *FLAGS, "--to", third).stdout.count("body") == 3
    assert run("cat", tmp_path, *FLAGS, "--to", third, "--time-slack-ms", 0).stdout.count("body") == 3
    assert read_files(tmp_path, monkeypatch, "--to", third) == 3
    assert read_files(tmp_path, monkeypatch, "--to", third, "--time-slack-ms", 0) == 1


def read_files(store: Path, monkeypatch: pytest.MonkeyPatch, *flags: object) -> int:
    """Returns in how many files `cat` looks for messages."""
    seen: set[str] = set()
    windows = ReadSplit.windows

    def counting(split: ReadSplit, *arguments: Any, **more: Any) -> Any:
        seen.add(split.file.path)
        return windows(split, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(ReadSplit, "windows", counting)
        assert run("cat", store, *FLAGS, *flags).exit_code == 0
    return len(seen)
