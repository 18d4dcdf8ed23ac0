"""Stores whose files have names, lengths and numbers that no broker gives them: clear errors, and
an end in time."""

from __future__ import annotations

import os
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import NotAStoreError, StorageError, UsageError
from logdex.io.env import DEFAULT_ENV
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.config_json import parse_config_json
from logdex.rocketmq.files.offset_files import OFFSET_MAX
from logdex.rocketmq.settings.store_config import parse_delay_levels
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.verify import verify
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, message, opened


@contextmanager
def few_descriptors() -> Iterator[None]:
    """Room for about 80 open files more than there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest + 80, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_info_of_more_queues_than_descriptors(tmp_path: Path) -> None:
    queues = 200
    root = build(tmp_path / "store", [message(0, queue_id=number) for number in range(queues)])
    with few_descriptors():
        look = overview(str(root), CONFIG)
    assert [queue.max_offset for queue in look.queues] == [1] * queues
    assert look.problems == []


def test_many_queues_of_one_open_store(tmp_path: Path) -> None:
    queues = 200
    root = build(tmp_path / "store", [message(0, queue_id=number) for number in range(queues)])
    with few_descriptors(), opened(root) as store:
        assert sum(len(store.get_message("TopicA", number, 0, 1).messages) for number in range(queues)) == queues
        store.refresh()
        assert len(store.queues()) == queues


def entry(physical_offset: int, size: int = 100) -> bytes:
    return struct.pack(">qiq", physical_offset, size, 0)


@pytest.mark.parametrize("start", [7, 16, OFFSET_MAX - 400, 1 << 40])
def test_a_queue_whose_name_is_no_multiple_of_an_entry(tmp_path: Path, start: int) -> None:
    (tmp_path / f"{start:020d}").write_bytes(entry(0) * 16)
    queue = ConsumeQueue(str(tmp_path), b"T", 0)
    assert queue.start_offset <= queue.max_offset <= queue.files[0].end_offset // 20


def test_a_file_behind_the_largest_offset_is_none_of_the_log(tmp_path: Path) -> None:
    (tmp_path / f"{OFFSET_MAX - 7:020d}").write_bytes(bytes(FILE_SIZE))
    with pytest.raises(NotAStoreError):
        CommitLog(str(tmp_path))
    (tmp_path / f"{0:020d}").write_bytes(bytes(FILE_SIZE))
    assert CommitLog(str(tmp_path)).foreign == (f"{OFFSET_MAX - 7:020d}",)


def test_verify_ends_where_a_queue_file_has_a_name_far_away(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    queue = root / "consumequeue" / "TopicA" / "0"
    size = CONFIG.consume_queue_file_size_bytes
    (queue / f"{0:020d}").write_bytes(bytes(size))
    (queue / f"{(1 << 62) // size * size:020d}").write_bytes(entry(0) + bytes(size - 20))
    report = verify(str(root), CONFIG)
    assert "consume-queue-gap" in {finding.check for finding in report.findings}


def recreated(path: Path, data: bytes) -> None:
    path.unlink()
    path.write_bytes(data)


def test_refresh_reads_files_that_a_recovery_made_anew(tmp_path: Path) -> None:
    old = build(tmp_path / "old", [message(0, body=b"old!", keys="k")])
    new = build(tmp_path / "new", [message(0, body=b"new!", keys="k")])
    with opened(old) as store:
        assert store.get_message("TopicA", 0, 0, 1).messages[0].body == b"old!"
        for name in ("commitlog", "consumequeue/TopicA/0"):
            recreated(old / name / f"{0:020d}", (new / name / f"{0:020d}").read_bytes())
        store.refresh()
        assert store.get_message("TopicA", 0, 0, 1).messages[0].body == b"new!"


def test_a_path_of_thousands_of_folders_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="name too long"):
        DEFAULT_ENV.make_dirs(f"{tmp_path}/" + "d/" * 3_000)


@pytest.mark.parametrize("levels", ["99999999999999999999d", "٣s", "1s " * 3 + "1" * 5_000 + "h"])
def test_delay_levels_beyond_a_number(levels: str) -> None:
    with pytest.raises(UsageError, match="messageDelayLevel"):
        parse_delay_levels(levels)


def peak_kib(function: Any) -> int:
    """How much the process's peak memory grew, KiB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


@pytest.mark.parametrize("between", [b" ", b",", b"/**/", b"//\n"])
def test_blanks_of_a_config_file_take_no_memory(between: bytes) -> None:
    data = b"{" + between * (8_000_000 // len(between)) + b"}"
    assert peak_kib(lambda: parse_config_json(data)) < 120_000
