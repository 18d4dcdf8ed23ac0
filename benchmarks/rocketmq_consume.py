"""Reading a queue of a `MessageStore` page by page as Arrow tables. Batches are read with
`get_columns`, because `Consumer.poll` returns a list of messages."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measure import judged, remove
from benchmarks.rocketmq_put import ROWS_AT_ONCE, make_table
from logdex.rocketmq.message_store.message_store import MessageStore

MESSAGES, PAGE_MESSAGES = 2_000_000, 32_768
COLUMNS_BAR, TAGGED_BAR = 3_000_000, 1_000_000
"""Messages of a queue per second: into columns without bodies, and looked at for a tag."""
_HEADS = ["queue_offset", "physical_offset", "size_bytes", "store_timestamp_ms"]


def consuming(data: Path, repeats: int, messages: int = MESSAGES) -> Iterator[dict[str, Any]]:
    """One queue of eight. With a tag, every fifth message is wanted, or every one: `per_s` counts
    the messages of the queue, `found_per_s` those with the tag, whose bodies are read. The best of
    some rounds; `on_core_per_s` by CPU time."""
    root = data / "consume"
    remove(root)
    table = make_table(messages, 100)
    with MessageStore.open(root) as store:
        for first in range(0, messages, ROWS_AT_ONCE):
            store.put_columns(table.slice(first, ROWS_AT_ONCE))
        store.wait_dispatched()
        every = "Tag0 || Tag1 || Tag2 || Tag3 || Tag4"
        for what, columns, tags, bar in (
            ("a queue into columns, no bodies", _HEADS, None, COLUMNS_BAR),
            ("a queue by one tag of five, with bodies", ["queue_offset", "body"], "Tag0", TAGGED_BAR),
            ("a queue by all its tags, with bodies", ["queue_offset", "body"], every, TAGGED_BAR),
        ):
            best, best_on_core = float("inf"), float("inf")
            for _ in range(repeats + 1):
                start, start_on_core = time.perf_counter(), time.thread_time()
                found, read = _read(store, columns, tags)
                best = min(best, time.perf_counter() - start)
                best_on_core = min(best_on_core, time.thread_time() - start_on_core)
            row = {"what": what, "found_per_s": round(found / best), "on_core_per_s": round(read / best_on_core)}
            yield judged(row, "per_s", read / best, bar)
    remove(root)


def _read(store: MessageStore, columns: list[str], tags: str | None) -> tuple[int, int]:
    """Reads a whole queue. Returns how many messages were found and how many it has."""
    offset = found = 0
    while True:
        page = store.get_columns("Bench0", 1, offset, PAGE_MESSAGES, columns=columns, tags=tags)
        found, offset = found + page.table.num_rows, page.next_begin_offset
        if offset >= page.max_offset:
            return found, page.max_offset
