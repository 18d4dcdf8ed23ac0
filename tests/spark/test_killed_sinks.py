"""Streaming queries that write a store or a log directory, killed while they append a batch and
started again from their checkpoint: every row is there once, in order per queue or partition."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sinks.journal import JOURNAL_NAME
from tests.golden.archives import ROOT

pytestmark = [
    *(pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)),
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds Spark's processes in /proc"),
]

KILLS = 4
ROWS, PARTS = 40_000, 2
"""Rows of a batch, and how many queues or partitions they go to in turn."""
START_S = 240
"""How long a query may take until it appends a batch, on a busy machine."""
QUERY = f"""
import json, sys
import logdex.spark
from logdex.spark.session import session

log_format, target, checkpoint, columns, options, is_last = *sys.argv[1:4], *map(json.loads, sys.argv[4:])
with session("local[2]") as spark:
    logdex.spark.register(spark)
    counting = spark.readStream.format("rate-micro-batch").options(rowsPerBatch={ROWS}, numPartitions={PARTS})
    written = counting.load().selectExpr(*columns).writeStream.format(log_format).options(**options)
    trigger = {{"availableNow": True}} if is_last else {{"processingTime": "50 milliseconds"}}
    query = written.option("checkpointLocation", checkpoint).trigger(**trigger).start(target)
    query.awaitTermination()
"""
NUMBER = "CAST(value AS STRING)"
BODY = f"concat({', '.join(f'sha2(concat({NUMBER}, {part}), 512)' for part in range(4))})"
"""512 bytes that take gzip some time, so that a batch is not appended in a moment."""
COLUMNS = {
    "kafka_log": [f"{NUMBER} AS key", f"CAST(value % {PARTS} AS INT) AS partition", f"{BODY} AS value"],
    "rocketmq_store": [f"{NUMBER} AS keys", f"CAST(value % {PARTS} AS INT) AS queueId", f"{BODY} AS body"],
}
OPTIONS = {
    "kafka_log": {"topic": "t", "partitions": str(PARTS), "segmentBytes": "500000", "compression": "gzip"},
    "rocketmq_store": {"topic": "t", "defaultTopicQueueNums": str(PARTS), "mappedFileSizeCommitLog": "1000000"},
}


def signal_session(leader: int, number: signal.Signals) -> None:
    """Sends a signal to all processes of a session. Spark's Python workers, one of which appends,
    have a process group of their own, and would go on without the driver."""
    for name in os.listdir("/proc"):
        with suppress(ValueError, ProcessLookupError):
            if os.getsid(int(name)) == leader:
                os.kill(int(name), number)


class Query:
    """A query that writes consecutive numbers, and is killed and started again."""

    def __init__(self, log_format: str, home: Path) -> None:
        self.target, self._said = home / "log", home / "said"
        words = map(json.dumps, (COLUMNS[log_format], OPTIONS[log_format]))
        checkpoint = str(home / "checkpoint")
        self._command = [sys.executable, "-c", QUERY, log_format, str(self.target), checkpoint, *words]

    def journal(self) -> dict[str, object]:
        """What the sink's journal says; nothing before there is one."""
        path = self.target / JOURNAL_NAME
        found: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def _log_files(self) -> int:
        """How many files the log has: a batch takes several."""
        return sum(1 for _ in self.target.glob("*-*/*.log")) + sum(1 for _ in self.target.glob("commitlog/*"))

    def kill_while_it_appends(self, *, at_once: bool) -> bool:
        """Runs it until it has decided a batch that this run has staged, and kills it: at once, or
        when a part of the batch is in the log. Returns whether it was killed in time."""
        before = self.journal()
        with self._said.open("wb") as said:
            running = subprocess.Popen(
                [*self._command, "false"], cwd=ROOT, stdout=said, stderr=said, start_new_session=True
            )
        try:
            deadline = time.monotonic() + START_S
            while (now := self.journal()) == before or now["pending"] is None:
                assert running.poll() is None, self._said.read_text()
                assert time.monotonic() < deadline, self._said.read_text()
                time.sleep(0.001)
            signal_session(running.pid, signal.SIGSTOP)
            files, pause_s = self._log_files(), 0.0
            while not at_once and self._log_files() < files + 3 and self.journal()["pending"] is not None:
                signal_session(running.pid, signal.SIGCONT)
                time.sleep(pause_s)
                pause_s += 0.0001  # until it is long enough for it to go on
                signal_session(running.pid, signal.SIGSTOP)
        finally:
            signal_session(running.pid, signal.SIGKILL)
            running.wait()
        return self.journal()["pending"] is not None

    def finish(self) -> None:
        """Runs it once more, for the batch that was not finished and those that are due."""
        done = subprocess.run([*self._command, "true"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-4000:]


def numbers(log_format: str, path: Path) -> list[list[int]]:
    """The numbers that each partition or queue has, in its order."""
    found: list[list[int]] = [[] for _ in range(PARTS)]
    if log_format == "kafka_log":
        with LogDirSnapshot(path) as logs:
            for partition, keys in enumerate(found):
                records = [*logs.scan(partition=partition)]
                assert [record.offset for record in records] == [*range(len(records))]
                keys += [int(record.key or b"") for record in records]
        return found
    with StoreSnapshot(path) as store:
        for queue, keys in enumerate(found):
            messages = [*store.scan(queue_id=queue)]
            assert [message.queue_offset for message in messages] == [*range(len(messages))]
            keys += [int(message.keys[0]) for message in messages]
    return found


@pytest.mark.parametrize("log_format", ["kafka_log", "rocketmq_store"])
def test_each_row_comes_once(tmp_path: Path, log_format: str) -> None:
    query = Query(log_format, tmp_path)
    in_time = [query.kill_while_it_appends(at_once=not number) for number in range(KILLS)]
    assert any(in_time[1:]), "some kills leave a part of a batch in the log"
    query.finish()
    found = numbers(log_format, query.target)
    count = sum(map(len, found))
    assert count % ROWS == 0
    assert count >= KILLS * ROWS
    assert found == [[*range(part, count, PARTS)] for part in range(PARTS)]
    assert query.journal()["pending"] is None
    assert list(query.target.glob(f"{JOURNAL_NAME}-*")) == []
