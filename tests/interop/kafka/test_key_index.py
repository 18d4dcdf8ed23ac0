"""A real broker's classes pass a key index over: the same log is loaded with it and without, and it
stays as it is. A broker that compacts a log beside its key indexes changes no answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests.golden import kafka as golden_kafka
from tests.interop.kafka.peer import ENVIRONMENT, PEERS, VERSIONS, needs_peers, run_broker, topic_config

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600)]


def load(directory: Path, work: Path) -> list[dict[str, Any]]:
    """What `UnifiedLog` says of a log directory after its load and clean end; `work` is the
    directory it left."""
    command = [str(PEERS / "run"), "ReadLog", "--dir", str(directory), "--mode", "log", "--load", "full"]
    command += ["--work", str(work)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=500, check=True)
    return [json.loads(text) for text in done.stdout.decode().splitlines()]


@pytest.mark.slow
def test_the_broker_ignores_it(tmp_path: Path) -> None:
    plain = golden_kafka.unpack("tiny-broker", tmp_path / "plain")
    indexed = tmp_path / "indexed"
    shutil.copytree(plain, indexed)
    written = {}
    for log in indexed.glob("orders-*/*.log"):
        target = log.with_suffix(".keyindex")
        target.write_bytes(build_key_index(str(log)).tobytes())
        written[target.relative_to(indexed)] = target.read_bytes()
    assert len(written) > 3
    answers = [
        [line for line in load(directory, tmp_path / f"work-{directory.name}") if "keyindex" not in str(line)]
        for directory in (plain, indexed)
    ]
    assert answers[0] == answers[1]
    assert [line for line in answers[0] if line["kind"] == "record"]
    left = tmp_path / "work-indexed"
    assert {path.relative_to(left): path.read_bytes() for path in left.rglob("*.keyindex")} == written


COMPACTED = LogConfig(segment_bytes=4000, index_interval_bytes=300, cleanup_policy=("compact",), retention_ms=-1)
PER_SEGMENT = 17
"""How many of the batches fit into a segment."""
KEPT = [number for number in range(100) if number % (2 * PER_SEGMENT) not in range(9, 26)]
"""The offsets whose keys come only once: the first 9 of a segment, the last 8 of the next one, and
so on. The cleaner joins what is left of two segments, in its second round, to one that is as long
as each of them was, and begins and ends like the first one."""
HOT = [b"hot-%02d" % number for number in range(10)]
KEYS = [b"key-%02d" % number for number in KEPT] + HOT


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_compacts_beside_it(version: str, tmp_path: Path) -> None:
    """Batches of one size with equal values, so that compacted segments look like those before at
    both ends, and are as long."""
    home, indexes = tmp_path / "home", tmp_path / "indexes"
    partition = home / "pp-0"
    config = topic_config(version, COMPACTED)
    config |= {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.001", "file.delete.delay.ms": "100"}
    run_broker(home, version, {"topics": [{"name": "pp", "partitions": 1, "config": config}]})
    now_ms = time.time_ns() // 1_000_000
    with Log.open(str(partition), COMPACTED) as log:
        for turn in range(12 * PER_SEGMENT):
            key = b"key-%02d" % turn if turn in KEPT else HOT[turn % len(HOT)]
            log.append([Record(key, bytes(150), now_ms - 10_000 + turn)])
    shutil.copytree(partition, indexes)
    written = 0
    for file in sorted(partition.glob("*.log")):
        for target in (partition, indexes):
            (target / f"{file.stem}.keyindex").write_bytes(build_key_index(str(file)).tobytes())
        written += 1
    assert written > 10
    before = answers(partition, indexes)
    broker = {"log.cleaner.backoff.ms": "200"}
    more = {"do": "produce", "topic": "pp", "partition": 0, "records": 100, "flushEvery": 5, "keys": "mod:5"}
    steps = [{"do": "await-clean", "topic": "pp"}, more, {"do": "await-clean", "topic": "pp"}]
    spec = {"seed": 1, "end": "clean", "broker": broker, "steps": steps}
    run_broker(home, version, spec)
    by_scan = answers(partition, None)
    assert by_scan != before
    assert answers(partition, partition) == by_scan
    assert answers(partition, indexes) == by_scan
    left = sorted(partition.glob("*.keyindex"))
    assert len(left) == written
    stale = []
    for path in left:
        log_path = path.with_suffix(".log")
        if log_path.exists():
            with KeyIndex.open(path) as index:
                stale += [] if index.was_built_from(log_path) else [str(path)]
    assert stale
    assert [finding.path for finding in verify(str(home), COMPACTED).findings] == stale


def answers(partition: Path, indexes: Path | None) -> dict[bytes, list[int]]:
    """The offsets of each key, by the key indexes in a directory or without any."""
    folder = str(indexes) if indexes else str(partition.parent)  # where there are none
    with PartitionSnapshot(str(partition)) as snapshot:
        return {key: [each.offset for each in snapshot.query(key, key_index_dir=folder)] for key in KEYS}
