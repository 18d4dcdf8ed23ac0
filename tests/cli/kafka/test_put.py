"""`put` and `cat --follow` of Kafka's directories."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import logdex
from logdex.kafka.batch.record import Record
from logdex.kafka.files.reader_positions import write_position
from logdex.kafka.log.log import Log
from tests.cli.helpers import run, run_json
from tests.conftest import GoldenStore


def test_put_makes_a_partition(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    told = run("put", path, "--create", "kafka", "--key", "k", "--value", "hé", "--header", "trace=1=2")
    assert (told.exit_code, told.stdout) == (0, "events/0  offset 0\n"), told
    assert run_json("put", path, "--value", "x") == [{"topic": "events", "partition": 0, "offset": 1}]
    first, second = run_json("cat", path)
    assert (first["key"], first["value"], first["headers"]) == ("aw==", "aMOp", [["trace", "MT0y"]])
    assert second["key"] is None
    assert run("verify", path).exit_code == 0


def test_put_takes_what_cat_prints(golden_log_copy: Callable[[str], Path], tmp_path: Path) -> None:
    logs = golden_log_copy("tiny-broker")
    before = run_json("cat", logs, "--topic", "orders", "--partition", 0)
    (tmp_path / "lines").write_text("\n".join(map(json.dumps, before)))
    put = run_json("put", logs, "--file", tmp_path / "lines")
    end = put[0]["offset"]
    assert end > before[-1]["offset"]
    assert [line["offset"] for line in put] == list(range(end, end + len(before)))
    after = run_json("cat", logs, "--topic", "orders", "--partition", 0, "--offset", end)
    for name in ("key", "value", "headers", "timestamp_ms"):
        assert [line[name] for line in after] == [line[name] for line in before]


def test_put_says_what_is_wrong(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    run("put", logs / "a-0", "--create", "kafka", "--value", "x")
    assert "--create rocketmq or --create kafka" in run("put", tmp_path / "none", "--value", "x").stderr
    assert "--value" in run("put", logs).stderr
    assert "--topic" in run("put", logs, "--value", "x").stderr
    assert "--create kafka" in run("put", logs, "--value", "x", "--topic", "b").stderr
    assert run("put", logs, "--value", "x", "--topic", "b", "--create", "kafka").stdout == "b/0  offset 0\n"
    assert "named like a partition" in run("put", tmp_path / "x", "--value", "x", "--create", "kafka").stderr
    assert "no value" in run("put", logs / "a-0", "--header", "x", "--value", "y").stderr
    assert "--queue" in run("put", logs / "a-0", "--queue", 1, "--value", "y").stderr
    for topic in ("../evil", "a/b", "..", "a" * 250, ""):
        told = run("put", logs, "--value", "x", "--topic", topic, "--create", "kafka")
        assert (told.exit_code, "cannot be the name of a topic" in told.stderr) == (2, True)
    (tmp_path / "lines").write_text('{"topic": "a", "partition": "../../evil-0", "value_text": "x"}')
    assert "partition cannot be" in run("put", logs, "--file", tmp_path / "lines", "--create", "kafka").stderr
    assert sorted(path.name for path in tmp_path.rglob("*evil*")) == []
    (tmp_path / "lines").write_text('{"timestamp_ms": "x"}')
    assert "line 1: timestamp_ms" in run("put", logs / "a-0", "--file", tmp_path / "lines").stderr


def test_put_refuses_flags_of_another_partition(tmp_path: Path) -> None:
    path = tmp_path / "w-0"
    run("put", path, "--create", "kafka", "--value", "x")
    flags = (("--topic", "other"), ("--partition", 1), ("--topic", "other", "--partition", 0))
    for flag, named in zip(flags, ("topic 'other'", "partition 1", "topic 'other'"), strict=True):
        for command in (("put", "--value", "y"), ("cat",), ("query", "--key", "k"), ("get", "--offset", 0)):
            told = run(command[0], path, *command[1:], *flag)
            assert told.exit_code == 2
            assert f"holds one partition, w-0, and not {named}" in told.stderr
            assert "leave out --topic and --partition" in told.stderr
    assert run("put", path, "--topic", "w", "--partition", 0, "--value", "y").stdout == "w/0  offset 1\n"


@contextmanager
def written_to(log: Log, other: Log) -> Iterator[None]:
    """Appends 25 records to two logs in turn, in a thread."""

    def write() -> None:
        for number in range(5, 30):
            time.sleep(0.005)
            (log if number % 2 else other).append(Record(value=b"%d" % number))

    thread = threading.Thread(target=write)
    thread.start()
    yield
    thread.join()


def test_cat_waits_for_more(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log, Log.open(tmp_path / "b-0") as other:
        log.append([Record(value=b"%d" % number) for number in range(5)])
        with written_to(log, other):
            lines = run_json("cat", tmp_path, "--follow", "--limit", 30)
        assert len(lines) == 30
        assert [line["offset"] for line in lines if line["topic"] == "b"] == list(range(12))


@pytest.mark.parametrize(
    "flags", [("--offset", 3), ("--from", 5), ("--offset", 1, "--isolation-level", "read_committed")]
)
def test_filters_of_a_cat_that_waits(tmp_path: Path, flags: tuple[object, ...]) -> None:
    with Log.open(tmp_path / "a-0") as log:
        log.append([Record(value=b"%d" % number, timestamp_ms=number + 1) for number in range(9)])
        expected = run_json("cat", tmp_path, *flags)
        assert run_json("cat", tmp_path, *flags, "--follow", "--limit", len(expected)) == expected
        assert len(expected) < 9


def test_a_group_goes_on_where_it_ended(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log, Log.open(tmp_path / "a-1") as other:
        log.append([Record(value=b"%d" % number, timestamp_ms=number + 1) for number in range(9)])
        other.append(Record(value=b"x"))
        found = [run_json("consume", tmp_path, "--topic", "a", "--group", "G", "--limit", 6) for _ in range(3)]
        assert [len(lines) for lines in found] == [6, 4, 0]
        assert run_json("consume", tmp_path / "a-1", "--group", "L", "--start", "last") == []
        rows = run_json("offsets", tmp_path)
        assert [(row["group"], row["partition"], row["offset"], row["lag"]) for row in rows] == [
            ("G", 0, 9, 0),
            ("G", 1, 1, 0),
            ("L", 1, 1, 0),
        ]
        assert {row["kind"] for row in rows} == {"reader"}
        reset = ("offsets", tmp_path, "--group", "G", "--topic", "a", "--reset-to")
        assert "nothing was changed" in run(*reset, "earliest").stderr
        assert [row["reset_to"] for row in run_json(*reset, "latest")] == [9, 1]
        assert [row["reset_to"] for row in run_json(*reset, "1970-01-01T00:00:00.004Z")] == [3, 0]
        assert run(*reset, 2, "--yes").exit_code == 0
        assert [(row["offset"], row["lag"]) for row in run_json("offsets", tmp_path / "a-0")] == [(2, 7)]
        misspelt = ("offsets", tmp_path, "--group", "Gg", "--topic", "a", "--reset-to", "earliest")
        told = run(*misspelt)
        assert "the group Gg has no offsets yet; did you mean G?" in told.stderr
        assert "nothing was changed" in told.stderr
        assert {row["group"] for row in run_json("offsets", tmp_path)} == {"G", "L"}
        assert run(*misspelt, "--yes").exit_code == 0
        assert "the nearest one is taken" in run(*reset, 7).stderr
        assert "the nearest one is taken" not in run(*reset, 1).stderr
        with log.reader("G"):
            assert "open in this process" in run(*reset, "latest", "--yes").stderr
        assert len(run_json("consume", tmp_path, "--topic", "a", "--group", "G")) == 7
        assert [row["lag"] for row in run_json("offsets", tmp_path, "--topic", "a", "--group", "N")] == [9, 1]


def test_consume_waits_for_more(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log, Log.open(tmp_path / "a-1") as other:
        log.append([Record(value=b"%d" % number) for number in range(5)])
        with written_to(log, other):
            lines = run_json("consume", tmp_path, "--follow", "--limit", 30, "--topic", "a", "--group", "G")
        assert sorted((line["partition"], line["offset"]) for line in lines) == [
            *((0, offset) for offset in range(18)),
            *((1, offset) for offset in range(12)),
        ]


def test_consume_and_offsets_say_what_is_wrong(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log:
        log.append(Record(value=b"x"))
    assert "--topic" in run("consume", tmp_path, "--group", "G").stderr
    assert "name" in run("consume", tmp_path / "a-0", "--group", "../x").stderr
    assert "partition's directory" in run("consume", tmp_path / "a-0" / f"{0:020}.log", "--group", "x").stderr
    assert "no consumer group and no reader" in run("offsets", tmp_path).stderr
    result = run("offsets", tmp_path, "--group", "G")
    assert (result.exit_code, "no group or reader G" in result.stderr) == (2, True)


def test_the_groups_of_the_broker_are_shown_and_not_reset(golden_log: GoldenStore) -> None:
    logs = golden_log("tiny-broker")
    shown = [(row["group"], row["topic"], row["partition"], row["offset"]) for row in run_json("offsets", logs)]
    with logdex.open_log_dir(logs) as snapshot:
        committed = snapshot.log_dir.consumer_offsets().offsets
    assert shown == sorted((group, *place, commit.offset) for (group, place), commit in committed.items())
    assert len(shown) > 2
    group, topic, *_ = shown[0]
    one = run_json("offsets", logs, "--group", group, "--topic", topic)
    assert {row["group"] for row in one} == {group}
    assert all(row["lag"] == row["log_end_offset"] - max(row["offset"], row["log_start_offset"]) for row in one)
    assert {row["kind"] for row in one} == {"group"}
    refused = run("offsets", logs, "--group", group, "--topic", topic, "--reset-to", "latest", "--yes")
    assert (refused.exit_code, "a consumer group of the broker" in refused.stderr) == (2, True)


def test_a_reader_with_the_name_of_a_group_is_reset(golden_log_copy: Callable[[str], Path]) -> None:
    logs = golden_log_copy("tiny-broker")
    group, topic, partition, offset = next(
        (row["group"], row["topic"], row["partition"], row["offset"]) for row in run_json("offsets", logs)
    )
    asked = ("offsets", logs, "--group", group, "--topic", topic)
    write_position(f"{logs}/{topic}-{partition}", group, offset)
    assert run(*asked, "--reset-to", "earliest", "--yes").exit_code == 0
    found = [row["offset"] for row in run_json(*asked) if row["partition"] == partition]
    with logdex.open_log_dir(logs) as snapshot:
        assert found == [offset, snapshot.partition(topic, partition).log_start_offset]


def test_records_of_any_time_are_put_if_asked(tmp_path: Path) -> None:
    late_ms = int(time.time() * 1000) + 86_400_000
    (tmp_path / "lines").write_text(json.dumps({"value_text": "x", "timestamp_ms": late_ms}))
    asked = ("put", tmp_path / "events-0", "--create", "kafka", "--file", tmp_path / "lines")
    told = run(*asked)
    assert (told.exit_code, "--no-timestamp-check" in told.stderr) == (2, True), told
    assert run_json(*asked, "--no-timestamp-check") == [{"topic": "events", "partition": 0, "offset": 0}]
    assert [line["timestamp_ms"] for line in run_json("cat", tmp_path / "events-0")] == [late_ms]
    store = run(
        "put", tmp_path / "store", "--create", "rocketmq", "--topic", "T", "--body", "x", "--no-timestamp-check"
    )
    assert (store.exit_code, "--no-timestamp-check" in store.stderr) == (2, True), store


def test_a_misspelt_field_is_told(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text('{"value_text": "a"}\n{"keyy": "x"}')
    told = run("put", tmp_path / "events-0", "--create", "kafka", "--file", tmp_path / "lines")
    assert told.exit_code == 2
    assert "line 2: there is no field 'keyy'" in told.stderr
    assert "did you mean key?" in told.stderr
    (tmp_path / "lines").write_text('{"topic": "t", "body_text": "a", "kyes": ["k"]}')
    told = run("put", tmp_path / "store", "--create", "rocketmq", "--file", tmp_path / "lines")
    assert (told.exit_code, "did you mean keys?" in told.stderr) == (2, True), told


def test_put_says_what_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    run("put", path, "--create", "kafka", "--value", "first")
    [log] = path.glob("*.log")
    whole = log.stat().st_size
    run("put", path, "--value", "second")
    with log.open("r+b") as file:
        file.seek(whole + 64)
        file.write(b"\xff\xff")
    (path / ".logdex-clean").unlink()
    told = run("put", path, "--value", "x")
    assert (told.exit_code, told.stdout) == (0, "events/0  offset 1\n")
    assert f"bytes were cut from byte {whole} of {log} on" in told.stderr
    assert "were cut" not in run("put", path, "--value", "y").stderr


def test_a_new_reader_with_the_name_of_a_broker_s_group(golden_log_copy: GoldenStore) -> None:
    """Its first records are the topic's, not those behind the group's offset, which is said
    once."""
    logs = golden_log_copy("tiny-broker")
    row = next(each for each in run_json("offsets", logs) if each["offset"] > each["log_start_offset"])
    command = ("consume", logs, "--topic", row["topic"], "--group", row["group"], "--limit", 1)
    told = "the broker's consumer group of that name keeps its own offsets"
    assert told in run(*command).stderr
    assert told not in run(*command).stderr
    assert told not in run("consume", logs, "--topic", row["topic"], "--group", "another", "--limit", 1).stderr


def test_groups_that_cannot_be_read_are_told(golden_log_copy: GoldenStore, tmp_path: Path) -> None:
    """Damage of `__consumer_offsets` hides groups, or their newest offsets."""
    logs = golden_log_copy("tiny-broker")
    path = max(logs.glob("__consumer_offsets-*/*.log"), key=lambda each: each.stat().st_size)
    data = bytearray(path.read_bytes())
    data[80] ^= 0xFF
    path.write_bytes(data)
    told = run("offsets", logs)
    assert (told.exit_code, str(path) in told.stderr) == (1, True)
    stats = run("stats", logs)
    assert str(path) in stats.stderr
    assert (run("info", logs).exit_code, stats.exit_code) == (1, 1)
    converted = run("convert", logs, "--to", "rocketmq", "--output", tmp_path / "out")
    assert "what groups have committed there is not taken over" in converted.stderr


def test_readers_are_told_from_groups(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log:
        log.append(Record(value=b"x"))
        with log.reader("billing") as reader:
            reader.poll()
            reader.commit()
    header, row = run("offsets", tmp_path).stdout.splitlines()
    assert (header.split()[:2], row.split()[:2]) == (["group", "kind"], ["billing", "reader"])
