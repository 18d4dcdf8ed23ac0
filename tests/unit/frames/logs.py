"""A store and a partition whose bodies are most of their bytes, and how much of them a query
reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.key_index import covered_log
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.read.plan import plan_read
from logdex.kafka.tables.log_tables import KafkaTables
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.tables.store_tables import StoreTables
from logdex.testing.store_builder import make_message, write_commit_log
from tests import remote
from tests.unit.rocketmq.read.test_plan import LARGE, large_messages
from tests.unit.rocketmq.small_stores import CONFIG, START_MS

COUNT = 60
BODY = b"x" * 20_000
STORE_CONFIG = replace(CONFIG, mapped_file_size_commit_log=1 << 18)
GEOMETRY: dict[str, Any] = {
    "mapped_file_size_consume_queue": 320,
    "max_hash_slot_num": 7,
    "max_index_num": 12,
    "rocketmq_version": "5.5.0",
}


def planned_bytes(tables: StoreTables | KafkaTables) -> int:
    """The bytes of the log that the read plan of the last query has."""
    scan = tables.scans[-1]
    return scan.plan().size_bytes if isinstance(scan, LogScan) else plan_read(scan.partitions, scan.wanted).size_bytes


def make_store(root: Path) -> Path:
    """Messages of two topics by turns, one per second, each with the keys `hot` (twice), `k-N` and
    `u-N`."""
    messages = [
        make_message(
            (b"orders", b"other")[number % 2],
            queue_id=0,
            queue_offset=number // 2,
            body=BODY,
            store_timestamp_ms=START_MS + number * 1000,
            properties=[(b"UNIQ_KEY", b"u-%d" % number), (b"KEYS", b"hot k-%d hot" % number), (b"TAGS", b"paid")],
        )
        for number in range(COUNT)
    ]
    write_commit_log(str(root), messages, 1 << 18)
    rebuild(str(root), str(root), STORE_CONFIG, in_place=True, sync=False)
    return root


def make_partition(path: Path) -> Path:
    """Records `k-N`, one per second."""
    with Log.open(str(path), segment_bytes=1 << 18, index_interval_bytes=100) as log:
        for number in range(COUNT):
            log.append([Record(b"k-%d" % number, BODY, START_MS + number * 1000)])
    return path


QUEUES_COUNT = 800
QUEUES_FILE_BYTES = 1 << 19
QUEUES_GEOMETRY: dict[str, Any] = {"max_hash_slot_num": 7, "max_index_num": 2000}


def make_store_of_queues(root: Path) -> Path:
    """Messages of 2 kB, one per millisecond, in four files: 40 queues of the topic Large, and a
    last message of the topic Rare."""
    messages = large_messages(count=QUEUES_COUNT)
    messages[-1] = replace(messages[-1], topic=b"Rare", queue_offset=0)
    write_commit_log(str(root), messages, QUEUES_FILE_BYTES)
    config = replace(LARGE, mapped_file_size_commit_log=QUEUES_FILE_BYTES)
    rebuild(str(root), str(root), config, in_place=True, sync=False)
    return root


def make_partition_with_keys(path: Path) -> Path:
    """`make_partition` with a key index beside each segment. A key index is held against the
    headers at the end of its log: here of a part that is as small beside the segment as it is
    beside a segment of the usual size."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(covered_log, "KEY_INDEX_TAIL_SIZE_BYTES", 25_000)
        for log in make_partition(path).glob("*.log"):
            log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    return path


@contextmanager
def remote_logs(root: Path, name: str) -> Iterator[tuple[str, str]]:
    """The URLs of a store and of a log directory on a remote file system, where bytes are counted
    as they are used: a file of a local disk is mapped, and nothing counts its bytes."""
    store = make_store_of_queues(root / "store")
    make_partition_with_keys(root / "logs" / "orders-0")
    with (
        pytest.MonkeyPatch.context() as patched,
        remote.in_memory(store, f"{name}-store") as store_url,
        remote.in_memory(root / "logs", f"{name}-logs") as logs_url,
    ):
        remote.small_parts(patched)
        yield store_url, logs_url
