"""Puts into a `MessageStore`: one by one, as Arrow tables, synced by many threads, and opening a
store, beside the real engine's puts."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import peer
from benchmarks.measure import remove
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message

MESSAGES, ROWS_AT_ONCE, MADE_AT_ONCE = 1_000_000, 50_000, 1_000
BULK_BARS = {100: 5.0, 1024: 4.0}
"""How many times the engine's puts per second with dispatch, by the size of the body."""
SINGLE_BAR = 150_000
SYNC_THREADS = 64
COLUMNS_BAR, TAGGED_BAR = 3_000_000, 1_000_000
"""Messages of a queue per second: into columns without bodies, and by a tag with bodies."""
_QUEUES = 4


def puts(data: Path, repeats: int, messages: int = MESSAGES) -> list[dict[str, Any]]:
    """As in BenchStore: two topics of four queues; a key, a tag and a UNIQ_KEY per message; default
    geometry, async flush."""
    rows = []
    for body in BULK_BARS:
        rows.append(_bulk(data / "put", repeats, messages, body))
    rows.append(_single(data / "put", repeats, max(messages // 5, 1)))
    rows.append(_synced(data / "put", max(messages // 100, SYNC_THREADS)))
    rows.append(_opening(data / "put", repeats, messages))
    rows += _consuming(data / "put", repeats, messages)
    remove(data / "put")
    return rows


def _table(messages: int, body: int) -> pa.Table:
    numbers = np.arange(messages)
    topics = pa.DictionaryArray.from_arrays(pa.array((numbers % 2).astype(np.int32)), ["TopicA", "TopicB"])
    return pa.table(
        {
            "topic": topics,
            "body": pa.array([b"x" * body], pa.binary()).take(pa.array(np.zeros(messages, np.int32))),
            "queue_id": numbers // 2 % _QUEUES,
            "keys": pa.array(numbers).cast(pa.string()),
            "tags": pa.array(["TagA"] * messages),
        }
    )


def _bulk(root: Path, repeats: int, messages: int, body: int) -> dict[str, Any]:
    """Arrow tables of some ten thousand rows, until all of them are dispatched."""
    table, rates = _table(messages, body), []
    for _ in range(repeats + 1):
        remove(root)
        with MessageStore.open(root) as store:
            store.put_columns(table.slice(0, 1))
            store.wait_dispatched()
            start = time.perf_counter()
            for first in range(0, messages, ROWS_AT_ONCE):
                assert store.put_columns(table.slice(first, ROWS_AT_ONCE)).is_stored
            store.wait_dispatched()
            rates.append(messages / (time.perf_counter() - start))
    row = {"what": f"put_columns with dispatch, {body} B", "per_s": round(statistics.median(rates[1:]))}
    remove(root)
    if peer.why_missing() is not None:
        return row | {"engine": peer.why_missing()}
    [line] = peer.bench_store(root.with_name("put-engine"), "put", body=body, messages=messages, repeat=max(repeats, 1))
    remove(root.with_name("put-engine"))
    ratio, bar = row["per_s"] / line["dispatchedPerSecond"], BULK_BARS[body]
    met = "yes" if ratio >= bar else "NO"
    engine = round(line["dispatchedPerSecond"])
    return row | {"engine_per_s": engine, "ratio": round(ratio, 2), "bar": bar, "met": met}


def _single(root: Path, repeats: int, messages: int) -> dict[str, Any]:
    """One thread, async. The message objects are made shortly before they are put, as programs do;
    making them is not counted. `on_core_us` is the thread's CPU time per put."""
    rates, on_core = [], []
    for _ in range(repeats + 1):
        remove(root)
        with MessageStore.open(root) as store:
            put, seconds, seconds_on_core = store.put_message, 0.0, 0.0
            for first in range(0, messages, MADE_AT_ONCE):
                made = [
                    Message(
                        ("TopicA", "TopicB")[i % 2], b"x" * 100, tags="TagA", keys=str(i), queue_id=i // 2 % _QUEUES
                    )
                    for i in range(first, min(first + MADE_AT_ONCE, messages))
                ]
                start, start_on_core = time.perf_counter(), time.thread_time()
                for message in made:
                    put(message)
                seconds += time.perf_counter() - start
                seconds_on_core += time.thread_time() - start_on_core
            rates.append(messages / seconds)
            on_core.append(1e6 * seconds_on_core / messages)
    per_s = round(statistics.median(rates[1:]))
    row = {"what": "put_message, 100 B, async", "per_s": per_s, "on_core_us": round(min(on_core), 2)}
    return row | {"bar": SINGLE_BAR, "met": "yes" if per_s >= SINGLE_BAR else "NO"}


def _synced(root: Path, messages: int) -> dict[str, Any]:
    """Many threads that share fsyncs."""
    remove(root)
    with MessageStore.open(root, flush="sync") as store:

        def run(number: int) -> None:
            for _ in range(messages // SYNC_THREADS):
                assert store.put_message(Message("TopicA", b"x" * 100, queue_id=number % _QUEUES)).is_stored

        threads = [threading.Thread(target=run, args=(number,)) for number in range(SYNC_THREADS)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
    done = messages // SYNC_THREADS * SYNC_THREADS
    return {"what": f"put_message, 100 B, sync, {SYNC_THREADS} threads", "per_s": round(done / seconds)}


def _opening(root: Path, repeats: int, messages: int) -> dict[str, Any]:
    """Opening a store that was closed: the CPU time of the best try."""
    remove(root)
    with MessageStore.open(root) as store:
        store.put_columns(_table(messages, 100))
    best = float("inf")
    for _ in range(repeats + 1):
        start = time.process_time()
        MessageStore.open(root, background=False).close()
        best = min(best, time.process_time() - start)
    return {"what": "open and close a clean store", "work_ms": round(1e3 * best, 1)}


def _consuming(root: Path, repeats: int, messages: int) -> list[dict[str, Any]]:
    """One queue of eight, read page by page as Arrow tables."""
    remove(root)
    rows = []
    with MessageStore.open(root) as store:
        for first in range(0, messages, ROWS_AT_ONCE):
            store.put_columns(_table(messages, 100).slice(first, ROWS_AT_ONCE))
        store.wait_dispatched()
        heads = ["queue_offset", "physical_offset", "size_bytes", "store_timestamp_ms"]
        for what, columns, tags, bar in (
            ("a queue into columns, no bodies", heads, None, COLUMNS_BAR),
            ("a queue by a tag, with bodies", ["queue_offset", "body"], "TagA", TAGGED_BAR),
        ):
            best = float("inf")
            for _ in range(repeats + 2):
                start, offset, count = time.perf_counter(), 0, 0
                while True:
                    page = store.get_columns("TopicA", 1, offset, 32_768, columns=columns, tags=tags)
                    count, offset = count + page.table.num_rows, page.next_begin_offset
                    if offset >= page.max_offset:
                        break
                best = min(best, time.perf_counter() - start)
            per_s = round(count / best)
            rows.append({"what": what, "per_s": per_s, "bar": bar, "met": "yes" if per_s >= bar else "NO"})
    remove(root)
    return rows
