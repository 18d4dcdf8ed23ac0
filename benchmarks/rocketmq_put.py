"""Puts into a `MessageStore`: as Arrow tables, one by one, synced by many threads, beside the real
engine's puts; and the memory that many puts take."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import peer
from benchmarks.measure import anonymous_bytes, judged, remove
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message

MESSAGES, ROWS_AT_ONCE, MADE_AT_ONCE = 1_000_000, 50_000, 1_000
BULK_BARS = {100: 5.0, 1024: 4.0}
"""How many times the engine's puts per second, by the size of the body."""
SINGLE_BAR = 150_000
SYNC_THREADS, SYNC_BAR = 64, 0.5
GROWTH_BAR_MB = 32
"""How much anonymous memory may be added from the middle of many puts to their end."""
QUEUES, TAGS = 4, 5
_TURNS = 2
"""How often ours and the engine are measured in turn."""


def puts(data: Path, repeats: int, messages: int = MESSAGES) -> Iterator[dict[str, Any]]:
    """As in BenchStore: two topics of four queues; a key, a tag and a UNIQ_KEY per message; default
    geometry, async flush unless said otherwise."""
    root = data / "put"
    for body in BULK_BARS:
        yield _bulk(root, repeats, messages, body)
    yield _single(root, repeats, max(messages // 5, 1))
    yield _synced(root, repeats, max(messages // 50, SYNC_THREADS))
    yield _memory_of_tables(root, 3 * messages)
    yield _memory_of_singles(root, max(messages // 2, 1))
    remove(root)


def make_table(messages: int, body: int) -> pa.Table:
    """Messages like those of BenchStore."""
    numbers = np.arange(messages)
    topics = pa.DictionaryArray.from_arrays(pa.array((numbers % 2).astype(np.int32)), ["Bench0", "Bench1"])
    tags = pa.array([f"Tag{number}" for number in range(TAGS)]).take(pa.array(numbers % TAGS))
    return pa.table(
        {
            "topic": topics,
            "body": pa.array([b"x" * body], pa.binary()).take(pa.array(np.zeros(messages, np.int32))),
            "queue_id": numbers // 2 % QUEUES,
            "keys": pa.array([f"key-{number}-0" for number in range(messages)]),
            "tags": tags,
        }
    )


def make_message(number: int) -> Message:
    """One of these messages, with a body of 100 B."""
    topic = ("Bench0", "Bench1")[number % 2]
    key, tag = f"key-{number}-0", f"Tag{number % TAGS}"
    return Message(topic, b"x" * 100, tags=tag, keys=key, queue_id=number // 2 % QUEUES)


# -- tables --------------------------------------------------------------------------------------
def _bulk(root: Path, repeats: int, messages: int, body: int) -> dict[str, Any]:
    """Arrow tables of some ten thousand rows, until all of them are dispatched. `ratio` is against
    the engine's puts with their dispatch, `ratio_to_puts` against its puts alone."""
    table = make_table(messages, body)
    ours: list[float] = []
    engine: list[float] = []
    engine_puts: list[float] = []
    for _ in range(_TURNS):
        ours += [_bulk_rate(root, table) for _ in range(-(-repeats // _TURNS) + 1)][1:]
        if peer.why_missing() is None:
            [line] = peer.bench_store(root.with_name("put-engine"), "put", body=body, messages=messages, repeat=3)
            engine.append(line["dispatchedPerSecond"])
            engine_puts.append(line["putsPerSecond"])
    remove(root.with_name("put-engine"))
    row: dict[str, Any] = {"what": f"put_columns with dispatch, {body} B", "per_s": round(statistics.median(ours))}
    row["best"] = round(max(ours))
    if not engine:
        return row | {"engine": peer.why_missing()}
    row |= {"engine_per_s": round(statistics.median(engine)), "engine_best": round(max(engine))}
    row["ratio_to_puts"] = round(row["per_s"] / statistics.median(engine_puts), 2)
    return judged(row, "ratio", row["per_s"] / statistics.median(engine), BULK_BARS[body])


def _bulk_rate(root: Path, table: pa.Table) -> float:
    remove(root)
    with MessageStore.open(root) as store:
        store.put_columns(table.slice(0, 1))
        store.wait_dispatched()
        start = time.perf_counter()
        for first in range(0, table.num_rows, ROWS_AT_ONCE):
            assert store.put_columns(table.slice(first, ROWS_AT_ONCE)).is_stored
        store.wait_dispatched()
        seconds = time.perf_counter() - start
    remove(root)
    return float(table.num_rows / seconds)


# -- one by one ----------------------------------------------------------------------------------
def _single(root: Path, repeats: int, messages: int) -> dict[str, Any]:
    """One thread, async. The message objects are made shortly before they are put, as programs do;
    making them is not counted. `on_core_us` is the thread's CPU time per put, `beside_us` that of
    the store's own threads meanwhile."""
    rates, on_core, beside = [], [], []
    for _ in range(repeats + 1):
        remove(root)
        with MessageStore.open(root) as store:
            put, seconds, own, process = store.put_message, 0.0, 0.0, 0.0
            for first in range(0, messages, MADE_AT_ONCE):
                made = [make_message(number) for number in range(first, min(first + MADE_AT_ONCE, messages))]
                start, start_own, start_process = time.perf_counter(), time.thread_time(), time.process_time()
                for message in made:
                    put(message)
                seconds += time.perf_counter() - start
                own += time.thread_time() - start_own
                process += time.process_time() - start_process
            rates.append(messages / seconds)
            on_core.append(1e6 * own / messages)
            beside.append(1e6 * (process - own) / messages)
    remove(root)
    row = {"what": "put_message, 100 B, async", "best": round(max(rates)), "on_core_us": round(min(on_core), 2)}
    row["beside_us"] = round(statistics.median(beside), 2)
    return judged(row, "per_s", statistics.median(rates[1:]), SINGLE_BAR)


def _synced(root: Path, repeats: int, messages: int) -> dict[str, Any]:
    """Many threads that share fsyncs. The first run of each turn only warms up, as for tables."""
    ours: list[float] = []
    engine: list[float] = []
    for _ in range(_TURNS):
        ours += [_synced_rate(root, messages) for _ in range(-(-repeats // _TURNS) + 1)][1:]
        if peer.why_missing() is None:
            how = {"body": 100, "messages": messages, "threads": SYNC_THREADS, "sync_flush": 1, "repeat": 3}
            [line] = peer.bench_store(root.with_name("put-engine"), "put", **how)
            engine.append(line["putsPerSecond"])
    remove(root.with_name("put-engine"))
    per_s = statistics.median(ours)
    row = {"what": f"put_message, 100 B, sync, {SYNC_THREADS} threads", "per_s": round(per_s)}
    if not engine:
        return row | {"engine": peer.why_missing()}
    row["engine_per_s"] = round(statistics.median(engine))
    return judged(row, "ratio", per_s / statistics.median(engine), SYNC_BAR)


def _synced_rate(root: Path, messages: int) -> float:
    remove(root)
    each = max(messages // SYNC_THREADS, 1)
    with MessageStore.open(root, flush="sync") as store:
        assert store.put_message(make_message(0)).is_stored

        def run(number: int) -> None:
            for _ in range(each):
                assert store.put_message(make_message(number)).is_stored

        threads = [threading.Thread(target=run, args=(number,)) for number in range(SYNC_THREADS)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
    remove(root)
    return each * SYNC_THREADS / seconds


# -- memory --------------------------------------------------------------------------------------
def _memory_of_tables(root: Path, messages: int) -> dict[str, Any]:
    remove(root)
    table, taken = make_table(ROWS_AT_ONCE, 100), [anonymous_bytes()]
    with MessageStore.open(root) as store:
        for _ in range(0, messages, ROWS_AT_ONCE):
            store.put_columns(table)
            taken.append(anonymous_bytes())
    return _growth(f"anonymous memory, put_columns of {messages} messages", taken)


def _memory_of_singles(root: Path, messages: int) -> dict[str, Any]:
    remove(root)
    taken = [anonymous_bytes()]
    with MessageStore.open(root) as store:
        for number in range(messages):
            store.put_message(make_message(number))
            if number % MADE_AT_ONCE == 0:
                taken.append(anonymous_bytes())
    return _growth(f"anonymous memory, put_message of {messages} messages", taken)


def _growth(what: str, taken: list[int]) -> dict[str, Any]:
    middle = max(taken[: len(taken) // 2 + 1])
    row = {"what": what, "before_mb": taken[0] >> 20, "middle_mb": middle >> 20, "peak_mb": max(taken) >> 20}
    return judged(row, "growth_mb", (max(taken) - middle) / (1 << 20), GROWTH_BAR_MB, at_most=True)
