"""`logdex info` of Kafka's directories: the named readers of partitions."""

from __future__ import annotations

from pathlib import Path

from logdex.kafka import Log, Record
from tests.cli.helpers import run, run_json


def logs_with_readers(path: Path) -> Path:
    for partition, committed in enumerate([{"billing": 3, "audit": 8}, {"billing": 1}, {}]):
        with Log.open(path / f"events-{partition}") as log:
            log.append([Record(value=b"%d" % number) for number in range(10)])
            for name, count in committed.items():
                with log.reader(name) as reader:
                    reader.poll(max_records=count)
                    reader.commit()
    return path


def test_named_readers_and_their_lag(tmp_path: Path) -> None:
    logs = logs_with_readers(tmp_path / "logs")
    found = {row["partition"]: row["readers"] for row in run_json("info", logs)}
    billing = {"offset": 3, "lag": 7}
    assert found == {
        0: {"audit": {"offset": 8, "lag": 2}, "billing": billing},
        1: {"billing": {"offset": 1, "lag": 9}},
        2: {},
    }
    (store,) = run_json("info", logs, "--store")
    assert {one["partition"]: one["readers"] for one in store["partitions"]} == found
    text = run("info", logs).stdout.splitlines()
    heading = next(line.split() for line in text if line.split()[:1] == ["TOPIC"])
    assert heading[2:6] == ["START", "END", "(EXCL.)", "STABLE"]
    place = next(number for number, line in enumerate(text) if line.split()[:1] == ["READER"])
    assert [line.split() for line in text[place:]] == [
        ["READER", "TOPIC", "PARTITION", "POSITION", "LAG"],
        ["audit", "events", "0", "8", "2"],
        ["billing", "events", "0", "3", "7"],
        ["billing", "events", "1", "1", "9"],
    ]


def test_of_one_partition_and_of_one_file(tmp_path: Path) -> None:
    logs = logs_with_readers(tmp_path / "logs")
    (row,) = run_json("info", logs / "events-1")
    assert row["readers"] == {"billing": {"offset": 1, "lag": 9}}
    assert "READER" not in run("info", logs / "events-2").stdout
    (row,) = run_json("info", logs / "events-1" / f"{0:020d}.log")
    assert row["readers"] == {}


def test_lag_counts_what_is_still_there(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0", retention_ms=-1) as log:
        with log.reader("slow") as reader:
            log.append([Record(value=b"x") for _ in range(4)])
            reader.poll(max_records=1)
            reader.commit()
        log.roll()
        log.append(Record(value=b"x"))
        log.delete_records(4)
    (row,) = run_json("info", tmp_path / "events-0")
    assert row["readers"] == {"slow": {"offset": 1, "lag": 1}}
    (progress,) = run_json("offsets", tmp_path / "events-0")
    assert progress["lag"] == 1


def test_a_position_that_is_none_is_a_problem(tmp_path: Path) -> None:
    logs = logs_with_readers(tmp_path / "logs")
    (logs / "events-1" / ".logdex-readers" / "billing.json").write_bytes(b"{")
    ended = run("info", logs)
    assert ended.exit_code == 1
    assert "billing.json: byte 0" in ended.stderr
    assert "READER" in ended.stdout
