"""A streaming query beside a real broker that is written to, killed ten times and started again
from its checkpoint: every message comes once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.interop.kafka import peer
from tests.interop.kafka import test_soak as kafka
from tests.interop.rocketmq import engines
from tests.interop.rocketmq import test_soak as rocketmq

pytestmark = [pytest.mark.needs_java, peer.needs_peers, pytest.mark.slow, pytest.mark.timeout(3600)]

KILLS = 10
GEOMETRY = {
    "mappedFileSizeCommitLog": 2_000_000,
    "mappedFileSizeConsumeQueue": 60_000,
    "maxHashSlotNum": 1000,
    "maxIndexNum": 8000,
}
QUERY = """
import json, sys
import logdex.spark
from logdex.spark.session import session

name, path, home, options, columns, is_last = *sys.argv[1:4], *map(json.loads, sys.argv[4:])
with session("local[2]") as spark:
    logdex.spark.register(spark)
    rows = spark.readStream.format(name).options(startingOffsets="earliest", **options).load(path).select(*columns)
    output = {"path": home + "/rows", "checkpointLocation": home + "/checkpoint"}
    trigger = {"availableNow": True} if is_last else {"processingTime": "200 milliseconds"}
    query = rows.writeStream.format("parquet").options(**output).trigger(**trigger).start()
    query.awaitTermination()
    print(json.dumps([list(row) for row in spark.read.parquet(home + "/rows").select(*columns).collect()]))
"""


class Query:
    """A query that is killed and started again; its output and its checkpoint are in `home`."""

    def __init__(self, name: str, path: Path, home: Path, options: Mapping[str, Any], columns: list[str]) -> None:
        home.mkdir()
        self._home = home
        words = map(json.dumps, (options, columns))
        self._command = [sys.executable, "-c", QUERY, name, str(path), str(home), *words]
        self.batches = 0

    def kill_again_and_again(self, chance: random.Random) -> None:
        """Runs it as often as `KILLS` says, each time until a moment behind its first batch."""
        for _ in range(KILLS):
            with subprocess.Popen(
                [*self._command, "false"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
            ) as process:
                before = self.batches
                while self.batches == before:
                    assert process.poll() is None
                    time.sleep(0.1)
                    self._count_batches()
                time.sleep(chance.uniform(0, 3))
                os.killpg(process.pid, signal.SIGKILL)
            self._count_batches()

    def _count_batches(self) -> None:
        self.batches = len(list((self._home / "checkpoint" / "commits").glob("[0-9]*")))

    def finish(self) -> list[list[Any]]:
        """Runs it to its end, and returns all rows of its output."""
        done = subprocess.run([*self._command, "true"], capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stderr[-4000:]
        rows: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
        return rows


def test_a_store_of_rocketmq(peers_dir: Path, tmp_path: Path) -> None:
    store, version = tmp_path / "store", engines.VERSIONS[0]
    engine = rocketmq.Engine(peers_dir, tmp_path)
    engine.compile(version)
    query = Query("rocketmq_store", store, tmp_path / "query", GEOMETRY, ["physicalOffset"])
    with engine.running(store, version, "clean", "--rate", "1000", "--keep", "1"):
        engine.wait_for(2000)
        query.kill_again_and_again(random.Random(1))
    found = sorted(row[0] for row in query.finish())
    with logdex.open(store) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        offsets = [offset for offset, _ in snapshot.scan().items()]
    assert found == offsets
    assert len(found) > engine.acknowledged > 2000
    assert query.batches >= KILLS


def test_a_log_directory_of_kafka(tmp_path: Path) -> None:
    home, version, load = tmp_path / "home", peer.VERSIONS[0], kafka.Load()
    peer.run_broker(home, version, {"broker": kafka.BROKER})
    options = {"subscribe": "plain,money", "isolation.level": "read_committed"}
    query = Query("kafka_log", home, tmp_path / "query", options, ["topic", "partition", "offset"])
    with peer.serving(home, version, {"broker": kafka.BROKER}) as broker, load.running(broker, version, 1):
        while load.needed("committed", "money", 1) < 0:
            load.wait_for_more()
        query.kill_again_and_again(random.Random(2))
    found = sorted(map(tuple, query.finish()))
    with logdex.open(home) as snapshot:
        assert isinstance(snapshot, LogDirSnapshot)
        rows = [
            (topic, partition, record.offset)
            for topic, partition in sorted(kafka.WHOLE)
            for record in snapshot.scan(topic=topic, partition=partition, isolation="read_committed")
        ]
    assert found == rows
    for topic, partition in kafka.WHOLE:
        assert max(row[2] for row in rows if row[:2] == (topic, partition)) >= load.last(topic, partition)
    assert query.batches >= KILLS
