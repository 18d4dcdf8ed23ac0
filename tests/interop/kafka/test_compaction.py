"""The real cleaner and ours compact the same log, and leave the same records in the same
batches."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify import verify
from tests.interop.kafka.peer import VERSIONS, config_option, needs_peers, read_log, run_broker, topic_config

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.slow, pytest.mark.timeout(600)]

CONFIG = LogConfig(segment_bytes=6000, index_interval_bytes=300, cleanup_policy=("compact",), retention_ms=-1)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Kept = list[tuple[object, ...]]


def write(log: Log, now_ms: int) -> None:
    chance = random.Random(5)
    for turn in range(400):
        records = [
            Record(
                b"key-%d" % chance.randrange(60),
                None if chance.random() < 0.1 else chance.randbytes(chance.randrange(90)),
                now_ms - 1000 + turn,
                (("h", b"%d" % turn),),
            )
            for _ in range(chance.randint(1, 6))
        ]
        codec = CODECS[turn % 5]
        if turn % 9 == 0:
            with log.transaction(7 + turn % 2) as transaction:
                transaction.append(records, compression=codec)
                if turn % 18 == 0:
                    transaction.abort()
        elif turn % 4 == 0:
            log.append(records, compression=codec, producer_id=50 + turn % 3, producer_epoch=0)
        else:
            log.append(records, compression=codec)


def kept(path: Path) -> tuple[Kept, Kept]:
    """(batches, records) below the active segment."""
    batches: Kept = []
    records: Kept = []
    with Log.open(str(path), CONFIG) as log:
        active = log.segments[-1].base_offset
        for segment in log.segments[:-1]:
            for batch in log.read_batches(segment.base_offset, 1 << 30):
                if batch.base_offset >= active:
                    break
                head: tuple[object, ...] = (
                    batch.base_offset,
                    batch.last_offset,
                    batch.count,
                    batch.attributes,
                    batch.leader_epoch,
                )
                head += (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.max_timestamp_ms)
                if head in batches:
                    continue
                batches.append(head)
                records += [
                    (each.offset, each.key, each.value, each.timestamp_ms, each.headers) for each in batch.records()
                ]
    return batches, records


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_stays(version: str, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    config = topic_config(version, CONFIG) | {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "file.delete.delay.ms": "100",
    }
    run_broker(theirs, version, {"topics": [{"name": "pp", "partitions": 1, "config": config}]})
    now_ms = time.time_ns() // 1_000_000
    with Log.open(str(theirs / "pp-0"), CONFIG) as log:
        write(log, now_ms)
        assert len(log.segments) > 8
    shutil.copytree(theirs, ours)
    with Log.open(str(ours / "pp-0"), CONFIG) as log:
        report = log.compact()
        assert report.records_kept < report.records_read
    broker = {"log.cleaner.backoff.ms": "200"}
    steps = [{"do": "await-clean", "topic": "pp"}]
    run_broker(theirs, version, {"seed": 1, "end": "clean", "broker": broker, "steps": steps})
    (their_batches, their_records), (our_batches, our_records) = kept(theirs / "pp-0"), kept(ours / "pp-0")
    assert our_records == their_records
    assert our_batches == their_batches
    assert verify(str(ours), CONFIG).findings == []

    for load in ("clean", "unclean", "full"):  # and the broker loads what we left
        lines = read_log(ours / "pp-0", version, "--mode", "log", "--load", load, *config_option(version, CONFIG))
        assert "failed" not in lines["log"][0], lines["log"][0]
        shown = {each["offset"] for each in lines["record"]}
        assert {each[0] for each in our_records} <= shown
