"""Queries by a key that millions of messages have: the first page, pages in the middle, all of
them."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import judged, remove
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_keys import key_hash_of
from logdex.rocketmq.message.stored_message import encode_message
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.testing.store_builder import make_message

ENTRIES, PAGE = 3_000_000, 10
PAGE_BAR_MS = 50.0
_START_MS = 1_700_000_000_000
_FIELDS = (("queue_offset", 20), ("physical_offset", 28), ("store_timestamp_ms", 56))
"""The bytes of a message that differ from one to the next, all of them int64."""


def hot_key(data: Path, repeats: int, entries: int = ENTRIES) -> list[dict[str, Any]]:
    """A store of default geometry whose messages all have one key. `work_ms` is the CPU time of one
    page. The first page after opening holds the index against the log too."""
    root = data / "hot-key"
    remove(root)
    _write(root, entries)
    rows: list[dict[str, Any]] = []

    def first_page() -> None:
        with StoreSnapshot(str(root), config=StoreConfig()) as store:
            page = store.query_message("T", "hot", max=PAGE)
            assert page.complete
            assert len(page.messages) == PAGE

    rows.append({"what": "open the store, first page of 10", "work_ms": _work_ms(first_page, repeats)})
    with StoreSnapshot(str(root), config=StoreConfig()) as store:
        cursor = store.query_message("T", "hot", max=PAGE).next_cursor
        for what, at in (("second page", cursor), ("page in the middle", store.valid_end_offset // 2), ("last", 2_000)):
            page = partial(store.query_message, "T", "hot", max=PAGE, cursor=at)
            rows.append({"what": f"{what} of 10", "work_ms": _work_ms(page, repeats)})
        started = time.process_time()
        with closing(store.search_messages("T", "hot").items()) as items:
            count = sum(1 for _ in islice(items, 200_000))
        rate = count / (time.process_time() - started)
        rows.append({"what": f"{count} of {entries} messages, one after the other", "per_s": round(rate)})
    rows[:-1] = [judged(row, "work_ms", row["work_ms"], PAGE_BAR_MS, at_most=True) for row in rows[:-1]]
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows.append({"what": "largest memory of the process, MB", "peak_mb": round(peak_mb)})
    remove(root)
    return rows


def _work_ms(call: Callable[[], object], repeats: int) -> float:
    """The CPU time of the best of some calls."""
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return round(1e3 * best, 2)


def _write(root: Path, entries: int) -> None:
    """Writes the CommitLog and the IndexFile."""
    config = StoreConfig()
    message = make_message(b"T", body=b"x" * 40, properties=[(b"KEYS", b"hot")])
    size = message.size_bytes
    blank = 8
    assert size * entries + blank <= config.mapped_file_size_commit_log
    (root / "commitlog").mkdir(parents=True)
    (root / "index").mkdir()
    numbers = np.arange(entries, dtype=np.int64)
    step = 1 << 16
    with (root / "commitlog" / f"{0:020d}").open("wb") as file:
        for start in range(0, entries, step):
            some = numbers[start : start + step]
            rows = np.tile(np.frombuffer(encode_message(message), np.uint8), (len(some), 1))
            for (_, at), values in zip(_FIELDS, (some, some * size, _START_MS + some), strict=True):
                rows[:, at : at + 8] = values.astype(">i8")[:, None].view(np.uint8)
            file.write(rows.tobytes())
        file.truncate(config.mapped_file_size_commit_log)
    with IndexFile(str(root / "index" / "20231114221320000"), config, writable=True) as index:
        hashes = np.full(entries, key_hash_of(b"T", b"hot"), np.int32)
        assert index.put_keys(hashes, numbers * size, _START_MS + numbers) == entries
