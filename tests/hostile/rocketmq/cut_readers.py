"""RocketMQ's readers, for `tests.hostile.cutting`. Run as a module: FOLDER SEED OPENS TRIALS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from logdex.convert.export import export
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.stats import stats
from logdex.io.env import Env
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.recover.job import recover
from logdex.rocketmq.recover.placeholder import LOST_TOPIC
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from logdex.testing.store_builder import write_commit_log
from tests.hostile.cutting import Reader, main
from tests.unit.rocketmq.small_stores import START_MS, message

CONFIG = StoreConfig(
    mapped_file_size_commit_log=1 << 17,
    mapped_file_size_consume_queue=20 * 100,
    max_hash_slot_num=500,
    max_index_num=1000,
    dialect=Dialect.of("5.5.0"),
)
SETTINGS = {
    "mapped_file_size_commit_log": CONFIG.mapped_file_size_commit_log,
    "mapped_file_size_consume_queue": CONFIG.mapped_file_size_consume_queue,
    "max_hash_slot_num": CONFIG.max_hash_slot_num,
    "max_index_num": CONFIG.max_index_num,
    "rocketmq_version": CONFIG.dialect.version,
}
MESSAGES = 600


def make(folder: Path) -> Path:
    """A store with three CommitLog files, four queues of two topics, and IndexFiles."""
    messages = []
    for number in range(MESSAGES):
        topic, queue_id = (b"TopicA", b"TopicB")[number % 2], number // 2 % 2
        given: dict[str, Any] = {"topic": topic, "queue_id": queue_id, "body": b"body %d " % number * 30}
        text = message(
            number // 4, keys=f"key-{number % 17} k-{number}", tag="AB"[number % 3 // 2], unique=False, **given
        )
        messages.append(text)
    write_commit_log(str(folder), messages, CONFIG.mapped_file_size_commit_log)
    rebuild(str(folder), str(folder), CONFIG, in_place=True, sync=False)
    return folder


def store(root: Path, env: Env) -> StoreSnapshot:
    return StoreSnapshot(str(root), config=CONFIG, env=env)


def scan_columns(root: Path, env: Env) -> Iterator[Any]:
    scanner = Scanner(CONFIG, window_messages=16, env=env)
    with store(root, env) as opened:
        for window in scanner.scan(opened.commit_log):
            count, columns = window.count, window.columns
            names = [scanner.table.queues[number] for number in columns.queue[:count].tolist()]
            wanted = (columns.position, columns.size, columns.queue_offset, columns.store_timestamp_ms)
            numbers = zip(*(column[:count].tolist() for column in wanted), strict=True)
            yield from zip(names, numbers, strict=True)


def scan(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        yield from opened.scan()


def scan_some(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        yield from opened.scan(topic="TopicA", queue_id=1, tags="A")
        yield from opened.scan(begin_ms=START_MS + 60_000, end_ms=START_MS + 90_000)


def arrow(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        batches = [*opened.scan().arrow_reader()]
    for batch in batches:
        yield from batch.to_pylist()


def arrow_one_by_one(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        for batch in opened.scan(topic="TopicB").arrow_reader():
            rows = batch.to_pylist()
            yield from rows
            assert batch.to_pylist() == rows


def get(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        for offset in range(0, 150, 12):
            yield from opened.get_message("TopicA", 0, offset, 4).messages
            yield from opened.get_message("TopicB", 1, offset, 4, tags="B").messages
        opened.get_offset_in_queue_by_time("TopicA", 0, START_MS + 60_000)


def get_columns(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        for topic, tags in (("TopicA", None), ("TopicB", "B")):
            offset = 0
            while True:
                page = opened.get_columns(topic, 0, offset, 40, tags=tags)
                yield from page.table.to_pylist()
                if page.next_begin_offset == offset:
                    break
                offset = page.next_begin_offset


def query(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        for number in range(0, 17, 4):
            yield from opened.query_message("TopicA", f"key-{number}").messages
        yield from opened.query_message("TopicB", "k-301", broker_semantics=True).messages
        yield from opened.query_message("TopicB", "k-303", scan_missing=True).messages
        for number in range(17):
            found = opened.index_service.query_offsets_many("TopicA", [f"key-{number}"])
            yield from ((number, offset) for offset in found.phy_offsets.tolist())


def check(root: Path, env: Env) -> Iterator[Any]:
    verify(str(root), CONFIG, env=env)
    return iter(())


def make_anew(root: Path, env: Env) -> Iterator[Any]:
    output = root.parent / f"rebuilt-{id(env)}-{env.counters.read_bytes}"
    rebuild(str(root), str(output), CONFIG, sync=False, env=env)
    return iter(())


def save(root: Path, env: Env) -> Iterator[Any]:
    output = root.parent / f"recovered-{id(env)}-{env.counters.read_bytes}"
    recover(str(root), str(output), CONFIG, sync=False, env=env)
    with store(output, Env()) as opened:
        for found in opened.scan():
            if found.topic != LOST_TOPIC:  # what it could not read is a placeholder
                yield found


def tail(root: Path, env: Env) -> Iterator[Any]:
    with store(root, env) as opened:
        for topic in ("TopicA", "TopicB"):
            for queue_id in (0, 1):
                yield from opened.get_tail(topic, queue_id, MESSAGES).messages


def info(root: Path, env: Env) -> Iterator[Any]:
    found = overview(str(root), CONFIG, env=env)
    assert found.to_json()
    return iter(())


def source(root: Path) -> StoreSource:
    return StoreSource(str(root), settings=SETTINGS)


def export_rows(root: Path, env: Env) -> Iterator[Any]:
    output = root.parent / f"exported-{id(env)}-{env.counters.read_bytes}"
    export(source(root), str(output), sync=False, env=env)
    for path in sorted(output.rglob("*.parquet")):
        yield from pq.ParquetFile(path).read().to_pylist()


def count(root: Path, env: Env) -> Iterator[Any]:
    found = stats(source(root), env=env)
    assert found.messages <= MESSAGES
    return iter(())


READERS: dict[str, Reader] = {
    "columns": scan_columns,
    "scan": scan,
    "some": scan_some,
    "arrow": arrow,
    "arrow batch by batch": arrow_one_by_one,
    "get": get,
    "get columns": get_columns,
    "query": query,
    "verify": check,
    "rebuild": make_anew,
    "recover": save,
    "tail": tail,
    "info": info,
    "export": export_rows,
    "stats": count,
}

if __name__ == "__main__":
    main(make, READERS)
