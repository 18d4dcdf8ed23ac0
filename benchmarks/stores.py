"""The stores that are measured: written by the real engine if it is available, else by our own
builder."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import peer
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.testing.store_builder import make_message, write_commit_log

TOPICS, QUEUES = 2, 4


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """`messages` messages with bodies of `body` bytes; one key, UNIQ_KEY and tag each, 2 topics x 4
    queues."""

    name: str
    messages: int
    body: int


SPECS = {
    spec.name: spec
    for spec in (
        StoreSpec("1k", 1_000_000, 1024),
        StoreSpec("100b", 3_000_000, 100),
        StoreSpec("4g", 3_600_000, 1024),
        StoreSpec("8g", 7_200_000, 1024),
    )
}


def ensure(spec: StoreSpec, data: Path) -> Path:
    """The store's directory below `data`, created if missing."""
    root = data / spec.name / "store"
    if (root / "commitlog").is_dir():
        return root
    print(f"  making the store {spec.name}: {spec.messages} messages of {spec.body} bytes", file=sys.stderr, flush=True)
    if peer.why_missing() is None:
        peer.bench_store(data / spec.name, "put", messages=spec.messages, body=spec.body, repeat=1)
    else:
        write_commit_log(str(root), _messages(spec), 1 << 30)
    return root


def read_in(root: Path) -> None:
    """Reads a store's CommitLog into the page cache, in the large pages that reading creates.

    The engine's own writing leaves pages of 4 KiB, and mapping those takes 0.1 s per GiB more.
    """
    for path in sorted((root / "commitlog").iterdir()):
        read_in_file(path)


def read_in_file(path: Path) -> None:
    """Reads one file into the page cache."""
    with path.open("rb", buffering=0) as file:
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.read(1 << 20):
            pass


def _messages(spec: StoreSpec) -> Iterator[StoredMessage]:
    body = random.Random(1).randbytes(spec.body)
    for i in range(spec.messages):
        yield make_message(
            b"Bench%d" % (i % TOPICS),
            queue_id=i // TOPICS % QUEUES,
            queue_offset=i // (TOPICS * QUEUES),
            body=body,
            store_timestamp_ms=1_700_000_000_000 + i // 100,
            properties=[
                (b"KEYS", b"key-%d-0" % i),
                (b"UNIQ_KEY", b"7F000001000018B4AAC2%012X" % i),
                (b"TAGS", b"Tag%d" % (i % 5)),
            ],
        )
