"""ConsumeQueue derivation: the kernel against its twin; files around gaps, repeats and wild
offsets."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex import limits
from logdex.io.env import Env
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.consume_queue.derive import PRE_BLANK_ENTRY, derive_consume_queue, queue_runs_plain
from logdex.rocketmq.consume_queue.writer import ConsumeQueueSet, QueueReport
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message.stored_message import StoredMessage, encode_message
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.strategies import stored_messages

FILE_SIZE = 5 * 20


@given(messages=st.lists(stored_messages(), max_size=12))
def test_runs_equal_the_plain_twin(tmp_path_factory: pytest.TempPathFactory, messages: list[StoredMessage]) -> None:
    path = tmp_path_factory.mktemp("runs") / "file"
    path.write_bytes(b"".join(map(encode_message, messages)))
    scanner = Scanner(StoreConfig(), window_messages=5)
    for window in scanner.scan_file(CommitLogFile(str(path), 0, path.stat().st_size)):
        runs = derive_consume_queue(window, scanner.table)
        seen = {
            queue: [(int(o), entries[20 * i : 20 * i + 20].tobytes()) for i, o in enumerate(offsets)]
            for queue, offsets, entries in runs
        }
        assert seen == queue_runs_plain(window, scanner.table)


def entry(number: int) -> bytes:
    return bytes([number]) * 20


def write(tmp_path: Path, *batches: list[int]) -> tuple[dict[str, bytes], QueueReport]:
    """Puts entries with these queue offsets, batch by batch; entry n is numbered in the order of
    putting, from 1."""
    queues = ConsumeQueueSet(str(tmp_path), FILE_SIZE, Env(), sync=False)
    number = 0
    for offsets in batches:
        data = b"".join(entry(number + i + 1) for i in range(len(offsets)))
        number += len(offsets)
        queues.put(b"T", 0, np.array(offsets, np.int64), np.frombuffer(data, np.uint8))
    queues.close()
    files = {path.name: path.read_bytes() for path in sorted((tmp_path / "T" / "0").glob("*"))}
    return files, queues.writers["T/0"].report


def name(file: int) -> str:
    return f"{file * FILE_SIZE:020d}"


def test_full_files_and_zeros_behind(tmp_path: Path) -> None:
    files, report = write(tmp_path, [0, 1, 2], [3, 4, 5, 6])
    assert files == {
        name(0): b"".join(entry(n) for n in range(1, 6)),
        name(1): (entry(6) + entry(7)).ljust(FILE_SIZE, b"\0"),
    }
    assert report == QueueReport(entries=7, first_offset=0, next_offset=7)


def test_a_queue_that_begins_past_zero_is_pre_blank_from_its_files_start(tmp_path: Path) -> None:
    files, report = write(tmp_path, [12, 13])
    assert files == {name(2): (PRE_BLANK_ENTRY * 2 + entry(1) + entry(2)).ljust(FILE_SIZE, b"\0")}
    assert report == QueueReport(entries=2, first_offset=12, next_offset=14)


def test_gaps_are_filled_and_repeats_left_out(tmp_path: Path) -> None:
    files, report = write(tmp_path, [0, 1, 1, 4], [2, 5])
    assert files == {
        name(0): entry(1) + entry(2) + PRE_BLANK_ENTRY * 2 + entry(4),
        name(1): entry(6).ljust(FILE_SIZE, b"\0"),
    }
    assert report == QueueReport(entries=4, gaps=2, repeated=2, first_offset=0, next_offset=6)


def put_in_log(tmp_path: Path, first_log_file_end: int, entries: list[tuple[int, int]]) -> bytes:
    """The bytes of the queue's files after putting entries, given as (queue offset, physical
    offset), one by one."""
    queues = ConsumeQueueSet(str(tmp_path), FILE_SIZE, Env(), sync=False, first_log_file_end=first_log_file_end)
    for offset, physical in entries:
        row = np.frombuffer(CONSUME_QUEUE_ENTRY.pack(physical, 100, 7), np.uint8)
        queues.put(b"T", 0, np.array([offset], np.int64), row)
    queues.close()
    return b"".join(path.read_bytes() for path in sorted((tmp_path / "T" / "0").glob("*")))


def test_gaps_repeat_the_next_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that meets a pre-blank entry passes over the entries behind it that point to the
    first file, and its binary searches go astray."""
    monkeypatch.setattr("logdex.rocketmq.consume_queue.writer.GAP_REPEATS_MAX", 3)
    data = put_in_log(tmp_path, 1000, [(1, 0), (3, 999), (8, 900), (10, 1000)])
    near, far, last = (CONSUME_QUEUE_ENTRY.pack(physical, 100, 7) for physical in (999, 900, 1000))
    first = CONSUME_QUEUE_ENTRY.pack(0, 100, 7)
    gaps = near + PRE_BLANK_ENTRY + far * 3
    assert data == (first * 2 + gaps[:20] + near + gaps[20:] + far + last * 2).ljust(3 * FILE_SIZE, b"\0")


def test_a_queue_that_begins_past_zero_in_a_later_file_begins_as_the_engine_does(tmp_path: Path) -> None:
    data = put_in_log(tmp_path, 1000, [(2, 1000)])
    assert data == (PRE_BLANK_ENTRY * 2 + CONSUME_QUEUE_ENTRY.pack(1000, 100, 7)).ljust(FILE_SIZE, b"\0")


def test_wild_offsets_fill_no_disk(tmp_path: Path) -> None:
    files, report = write(tmp_path, [0, limits.QUEUE_GAP_MAX + 2, -5, 1 << 62, 1])
    assert files == {name(0): (entry(1) + entry(5)).ljust(FILE_SIZE, b"\0")}
    assert report == QueueReport(entries=2, implausible=3, first_offset=0, next_offset=2)


def test_gaps_are_bounded_in_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUEUE_GAP_MAX", 5)
    _, report = write(tmp_path, [0, 4, 8, 12, 7])
    assert (report.entries, report.gaps, report.implausible, report.next_offset) == (3, 5, 2, 8)


def test_gaps_are_bounded_in_files(tmp_path: Path) -> None:
    most = limits.QUEUE_GAP_FILES_MAX * FILE_SIZE // 20
    files, report = write(tmp_path, [0, most + 2, 1])
    assert len(files) == 1
    assert (report.entries, report.gaps, report.implausible, report.next_offset) == (2, 0, 1, 2)


@pytest.mark.parametrize("first", [-1, limits.QUEUE_OFFSET_MAX + 1])
def test_a_wild_first_offset_does_not_stand_for_the_queue(tmp_path: Path, first: int) -> None:
    files, report = write(tmp_path, [first, 0, 1])
    assert files == {name(0): (entry(2) + entry(3)).ljust(FILE_SIZE, b"\0")}
    assert report == QueueReport(entries=2, implausible=1, first_offset=0, next_offset=2)


@pytest.mark.parametrize("topic", [b"", b".", b"..", b"a/b", b"../x", b"nul\0", b"x" * 256])
def test_topics_that_cannot_be_folders_are_counted(tmp_path: Path, topic: bytes) -> None:
    queues = ConsumeQueueSet(str(tmp_path), FILE_SIZE, Env(), sync=False)
    queues.put(topic, 3, np.arange(2), np.zeros(40, np.uint8))
    assert (queues.close(), queues.skipped, list(tmp_path.iterdir())) == (0, {(topic, 3): 2}, [])


def test_folders_are_named_as_java_reads_the_topic() -> None:
    assert queue_folder("主题".encode(), 7) == "主题/7"
    assert queue_folder(b"bad\xff", -1) == "bad\ufffd/-1"
