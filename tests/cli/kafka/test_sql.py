"""`logdex sql` of Kafka logs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("duckdb")
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.cli.helpers import end_of, run, run_json


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    for partition in range(2):
        with Log.open(str(tmp_path / f"orders-{partition}")) as log:
            for number in range(5 + partition):
                log.append([Record(b"k-%d" % number, b"v", 1_700_000_000_000 + number)])
    return tmp_path


def test_records_and_partitions(logs: Path) -> None:
    query = 'SELECT partition, count(*) AS n, max("offset") AS last FROM records GROUP BY 1 ORDER BY 1'
    assert run_json("sql", logs, query) == [{"partition": 0, "n": 5, "last": 4}, {"partition": 1, "n": 6, "last": 5}]
    assert run_json("sql", logs, "SELECT partition, log_end_offset FROM partitions WHERE partition = 1") == [
        {"partition": 1, "log_end_offset": 6}
    ]
    [row] = run_json("sql", logs / "orders-1", "SELECT * FROM records WHERE \"offset\" = 3 AND key = 'k-3'")
    assert (row["key"], row["value"], row["timestamp"]) == ("ay0z", "dg==", "2023-11-14T22:13:20.003Z")


def test_bad_batches_are_told(logs: Path) -> None:
    file = next((logs / "orders-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[2 * len(data) // 5 + 70] ^= 1
    file.write_bytes(data)
    result = run("sql", logs, "SELECT count(*) AS n FROM records", "--csv")
    assert (result.exit_code, result.stdout) == (1, "n\n10\n")
    assert "skipped" in result.stderr
    assert run("sql", logs, "SELECT count(*) AS n FROM records WHERE partition = 1", "--csv").exit_code == 0
    end = end_of("sql", logs, "SELECT count(*) AS n FROM records", exit_code=1)
    assert (end["end_of"], end["count"], end["is_complete"]) == ("sql", 1, False)
    [problem] = end["problems"]
    assert f"skipped: {problem}" in result.stderr
    assert (end["gaps"], end["missing_offsets"], end["ends"], end["deleted"]) == (1, 1, [], [])
    twice = 'SELECT a.key FROM records a JOIN records b USING (partition, "offset")'
    assert end_of("sql", logs, twice, exit_code=1)["problems"] == [problem]
    end = end_of("sql", logs, "SELECT key FROM records WHERE partition = 1")
    assert (end["count"], end["is_complete"], end["problems"]) == (6, True, [])


def test_flags(logs: Path) -> None:
    assert run("sql", logs, "SELECT 1", "--isolation-level", "read_committed", "--control").exit_code == 0
    refused = run("sql", logs, "SELECT 1", "--time-slack-ms", 3)
    assert refused.exit_code == 2
    assert "--time-slack-ms is a flag of RocketMQ's" in refused.stderr
