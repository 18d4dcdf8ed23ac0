"""Kafka's readers, for `tests.hostile.cutting`. Run as a module: FOLDER SEED OPENS TRIALS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from logdex.convert.export import export
from logdex.convert.sources.kafka import LogDirSource
from logdex.formats import detect
from logdex.io.env import Env
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.directory.recognise import KafkaPath
from logdex.kafka.key_index.reader import KeyIndex
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow import LogFollower
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.tail import read_tail
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests.hostile.cutting import Reader, main

START_MS = 1_700_000_000_000
ROUNDS = 60
CODECS = (Compression.NONE, Compression.LZ4, Compression.ZSTD, Compression.NONE)


def make(folder: Path) -> Path:
    """A log directory with one partition: three segments, every codec, a transaction, key
    indexes."""
    folder.mkdir()
    (folder / "meta.properties").write_text("version=1\nbroker.id=1\ncluster.id=c\n")
    path = folder / "events-0"
    with Log.open(str(path), clock_ms=lambda: START_MS, index_interval_bytes=400, retention_ms=-1) as log:
        for turn in range(ROUNDS):
            numbers = range(10 * turn, 10 * turn + 10)
            records = [Record(b"key-%d" % (n % 17), b"value %d " % n * 30, START_MS + n, ()) for n in numbers]
            if turn % 10 == 7:
                log.append(records, producer_id=5, producer_epoch=0, transactional=True)
                log.append_end_marker(5, 0, commit=turn % 20 == 7, timestamp_ms=START_MS + numbers[-1])
            else:
                log.append(records, compression=CODECS[turn % 4])
            if turn % 20 == 19:
                log.roll()
    rebuild(str(path), str(path), in_place=True, key_index=True, sync=False)
    for replaced in path.glob("*.20*Z"):
        replaced.unlink()
    return folder


def partition(root: Path, env: Env) -> PartitionSnapshot:
    return PartitionSnapshot(str(root / "events-0"), env=env)


def logs(root: Path) -> list[Path]:
    return sorted((root / "events-0").glob("*.log"))


def scan_batches(root: Path, env: Env) -> Iterator[Any]:
    for path in logs(root):
        for window in BatchScanner(window_batches=4, env=env).scan_file(str(path)):
            yield from zip(*(column.tolist() for column in window.columns), strict=True)


def decode(root: Path, env: Env) -> Iterator[Any]:
    held = []
    for path in logs(root):
        for batch in read_record_batches(str(path), window_bytes=4096, env=env):
            held.append(batch)
            yield from batch.to_pylist()
    for batch in held:
        yield from batch.to_pylist()


def scan_records(root: Path, env: Env) -> Iterator[Any]:
    with partition(root, env) as log:
        yield from log.scan()


def scan_arrow(root: Path, env: Env) -> Iterator[Any]:
    with partition(root, env) as log:
        batches = [*log.scan().arrow_reader()]
    for batch in batches:
        yield from batch.to_pylist()


def scan_committed(root: Path, env: Env) -> Iterator[Any]:
    with partition(root, env) as log:
        yield from log.scan(isolation="read_committed", begin_ms=START_MS + 150)


def look_up(root: Path, env: Env) -> Iterator[Any]:
    with partition(root, env) as log:
        for offset in range(0, 600, 60):
            yield from log.read(offset, max_records=2)
        for time_ms in range(0, 600, 75):
            log.offset_for_timestamp(START_MS + time_ms)  # of a shorter log, another answer is right


def query(root: Path, env: Env) -> Iterator[Any]:
    with partition(root, env) as log:
        yield from log.query("key-3")
        yield from log.query("key-absent")


def key_index(root: Path, env: Env) -> Iterator[Any]:
    for path in sorted((root / "events-0").glob("*.keyindex")):
        with KeyIndex.open(str(path), env=env) as index:
            for number in range(17):
                key = b"key-%d" % number
                yield path.name, key, index.may_contain(key), index.candidates(key).tolist()
            index.verify()
            for found in index.lookup_many([b"key-1", b"nothing"]):
                yield found.tolist()


def check(root: Path, env: Env) -> Iterator[Any]:
    verify(str(root), env=env)
    return iter(())


def make_anew(root: Path, env: Env) -> Iterator[Any]:
    rebuild(str(root), str(root.parent / f"rebuilt-{env.counters.read_bytes}-{id(env)}"), sync=False, env=env)
    return iter(())


def save(root: Path, env: Env) -> Iterator[Any]:
    output = root.parent / f"recovered-{id(env)}"
    recover(str(root), str(output), sync=False, env=env)
    with partition(output, Env()) as log:
        yield from log.scan()


def follow(root: Path, env: Env) -> Iterator[Any]:
    follower = LogFollower(str(root / "events-0"), isolation="read_committed", env=env)
    try:
        while records := follower.poll():
            yield from records
    finally:
        follower.close()


def tail(root: Path, env: Env) -> Iterator[Any]:
    with partition(root, env) as log:
        records, _ = read_tail(log, log.log_end_offset, ReadFilter(), 10 * ROUNDS)
    yield from records


def info(root: Path, env: Env) -> Iterator[Any]:
    found = detect(root, env=env)
    assert isinstance(found, KafkaPath)
    assert overview(found, LogConfig(), env=env).to_json()
    return iter(())


def export_rows(root: Path, env: Env) -> Iterator[Any]:
    output = root.parent / f"exported-{id(env)}-{env.counters.read_bytes}"
    export(LogDirSource(str(root)), str(output), sync=False, env=env)
    for path in sorted(output.rglob("*.parquet")):
        yield from pq.ParquetFile(path).read().to_pylist()


READERS: dict[str, Reader] = {
    "scan": scan_batches,
    "decode": decode,
    "records": scan_records,
    "arrow": scan_arrow,
    "committed": scan_committed,
    "look-ups": look_up,
    "query": query,
    "key index": key_index,
    "verify": check,
    "rebuild": make_anew,
    "recover": save,
    "follow": follow,
    "tail": tail,
    "info": info,
    "export": export_rows,
}

if __name__ == "__main__":
    main(make, READERS)
