"""A queue found by a scan answers as the ConsumeQueue files do that a rebuild derives of the same
log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logdex.errors import MissingFileError
from logdex.layout.rocketmq import SYS_FLAG_PREPARED
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.read.scanned_queue import ScannedQueue
from tests.unit.rocketmq.small_stores import CONFIG, START_MS, build, message

OFFSETS = {
    "rising": [0, 1, 2, 3, 4],
    "from the middle": [1000, 1001, 1002],
    "gaps": [5, 6, 9, 10, 40],
    "repeated and going back": [3, 4, 4, 2, 5, 6, 1, 7],
    "below zero": [-1, 7, 8],
    "far ahead": [1, 2, 1 << 58, 3, 4],
    "one": [17],
}


def queues(root: Path, offsets: list[int]) -> tuple[ScannedQueue, ConsumeQueue]:
    build(
        root,
        [message(offset, tag="AB"[offset % 2], store_timestamp_ms=START_MS) for offset in offsets]
        + [message(0, queue_id=1)],
    )
    log = CommitLog(str(root / "commitlog"), file_size_bytes=CONFIG.mapped_file_size_commit_log)
    written = ConsumeQueue(str(root / "consumequeue" / "TopicA" / "0"), b"TopicA", 0)
    return ScannedQueue(log, b"TopicA", 0, config=CONFIG), written


@pytest.mark.parametrize("name", OFFSETS)
def test_it_answers_as_the_files_do(name: str, tmp_path: Path) -> None:
    scanned, written = queues(tmp_path, OFFSETS[name])
    first = next(offset for offset in OFFSETS[name] if offset >= 0)
    assert (scanned.start_offset, scanned.max_offset) == (first, written.max_offset)
    for start in range(first, written.max_offset):
        assert scanned.entry(start) == written.entry(start)
        for count in (1, 3, 1000):
            np.testing.assert_array_equal(scanned.entries(start, count), written.entries(start, count))
    for end in range(0, 4096, 100):
        assert scanned.max_offset_in(end) == max(written.max_offset_in(end), first)
    with pytest.raises(MissingFileError):
        scanned.entry(written.max_offset)
    with pytest.raises(MissingFileError):
        scanned.entry(first - 1)


def test_a_new_message_is_there_after_a_refresh(tmp_path: Path) -> None:
    scanned, _ = queues(tmp_path, [0, 1])
    build(tmp_path, [message(offset) for offset in range(5)])
    assert scanned.max_offset == 2
    scanned._log.refresh()
    scanned.refresh()
    assert scanned.max_offset == 5


def test_a_queue_that_the_log_does_not_have(tmp_path: Path) -> None:
    build(tmp_path, [message(0), message(1, sys_flag=SYS_FLAG_PREPARED, queue_id=2)])
    log = CommitLog(str(tmp_path / "commitlog"))
    for name in ((b"TopicA", 1), (b"TopicA", 2), (b"TopicB", 0)):
        with pytest.raises(MissingFileError, match="no message of this queue"):
            ScannedQueue(log, *name, config=CONFIG)
