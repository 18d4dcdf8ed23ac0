"""Bulk puts and look-ups in one IndexFile of default size, against IndexFile.putKey and
selectPhyOffset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import peer
from benchmarks.measure import remove, timed
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_keys import KeyBatch, batch_of
from logdex.rocketmq.settings.store_config import StoreConfig

KEYS, SELECTS, NAMES = 10_000_000, 1_000_000, 1 << 20


def index_file(data: Path, repeats: int) -> list[dict[str, Any]]:
    """10 M puts, then 1 M look-ups of hits and of misses. Both sides hash the keys within the
    measured time."""
    names = [f"Bench{i % 2}#key-{i * 31}" for i in range(NAMES)]
    batches = [batch_of([name + str(lap) for name in names]) for lap in range(-(-KEYS // NAMES))]
    order = np.random.default_rng(5).integers(0, NAMES, SELECTS)
    hits = batch_of([names[i] + "3" for i in order])
    misses = batch_of([names[i] + "x" for i in order])
    folder = data / "index-bench"
    put, hit, miss = [], [], []
    for _ in range(repeats + 1):
        remove(folder)
        folder.mkdir(parents=True)
        with IndexFile(str(folder / "20240101000000000"), StoreConfig(), writable=True) as file:
            put += timed(lambda file=file: _put_all(file, batches), 1)  # type: ignore[misc]
            hit += timed(lambda file=file: file.select_many(hits, 64), 1)  # type: ignore[misc]
            miss += timed(lambda file=file: file.select_many(misses, 64), 1)  # type: ignore[misc]
            assert file.header.index_count == KEYS + 1
    remove(folder)
    engine = peer.bench_store(data / "index-peer", "index", repeat=3)[0] if peer.why_missing() is None else {}
    rows = []
    for what, seconds, count, theirs in (
        ("put_keys / putKey", put, KEYS, "putKeyPerSecond"),
        ("select_many hits / selectPhyOffset", hit, SELECTS, "selectHitPerSecond"),
        ("select_many misses / selectPhyOffset", miss, SELECTS, "selectMissPerSecond"),
    ):
        rate = count / min(seconds[1:])
        row: dict[str, Any] = {"what": what, "million_per_s": round(rate / 1e6, 2)}
        if engine:
            row |= {
                "engine_million_per_s": round(engine[theirs] / 1e6, 2),
                "ratio_best": round(rate / engine[theirs], 2),
            }
        rows.append(row)
    return rows


def _put_all(file: IndexFile, batches: list[KeyBatch]) -> None:
    done = 0
    for batch in batches:
        at = np.arange(done, min(done + NAMES, KEYS), dtype=np.int64)
        keys = KeyBatch(batch.data, batch.ends[: len(at)])
        done += file.put_keys(keys, 300 * at, 1_700_000_000_000 + at // 100)
