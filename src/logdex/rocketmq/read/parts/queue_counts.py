"""How many messages each queue of a store has, from its ConsumeQueues instead of its log.

That is known where the entries of all queues lie end to end, each message once
(`logdex.rocketmq.consume_queue.queue_coverage`), from the log's first byte to its end, but for the
filler of each file. Of the log itself only the last message of each queue and the fillers are read,
so damage in other messages is not found. A store that was not closed may have lost messages that
entries point to, so its log is scanned.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.read.parts.part_reader import PIECE_BYTES
from logdex.rocketmq.read.parts.queue_guide import QueueGuide
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig

QueueCounts = Counter[tuple[bytes, int]]
"""The number of messages per (topic, queue id)."""


def count_by_queue(log: CommitLog, store: str, config: StoreConfig, env: Env, end_offset: int) -> QueueCounts | None:
    """Returns how many messages of each queue the log of a store has before its end; None if the
    ConsumeQueues do not show that."""
    if env.exists(StorePaths(store).abort):
        return None
    counts: QueueCounts = Counter()
    scanner = Scanner(config, check_crc=False, env=env)
    try:
        with closing(QueueGuide(store, ReadFilter(), env, bodies=False)) as guide:
            expected = log.min_offset
            for file in log.files:
                if file.start_offset >= end_offset:
                    break
                if file.start_offset != expected or not _count_in(env, guide, scanner, file, end_offset, counts):
                    return None
                expected += log.file_size_bytes
    except StorageError:
        return None
    return counts if expected >= end_offset else None


def _count_in(
    env: Env, guide: QueueGuide, scanner: Scanner, file: CommitLogFile, end_offset: int, counts: QueueCounts
) -> bool:
    """Adds the messages of one file to the counts. Returns False if the entries do not show
    them."""
    at, end = 0, min(end_offset - file.start_offset, file.size_bytes)
    with env.open_read(file.path) as opened:
        while at < end:
            stop = min(at + PIECE_BYTES, end)
            found = guide.count(scanner, file, opened, at, stop)
            if found is not None:
                at, more = found
                counts.update(more)
            if found is None or at < stop:
                break
        if at == end:
            return True
        blank = opened.read_at(at, BLANK.size_bytes)
    is_last = end_offset <= file.end_offset
    return not is_last and blank == BLANK.struct.pack(file.size_bytes - at, BLANK_MAGIC)
