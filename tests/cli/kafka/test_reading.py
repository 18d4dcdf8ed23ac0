"""info, cat, get and query on Kafka's directories, written by real brokers: what Kafka's classes
read there, in the design's field names; nothing is changed."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.cli.helpers import end_of, rows_of, run, run_json
from tests.directories import tree_hash
from tests.examples import cases
from tests.golden import kafka as golden_kafka
from tests.golden.kafka import Line

RECORD_FIELDS = [
    *("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers", "leader_epoch"),
    *("producer_id", "producer_epoch", "sequence", "is_transactional", "is_control"),
    *("key_text", "value_text"),
]
SMALL = [name for name in golden_kafka.NAMES if name.startswith("tiny-")]


def lines_of(name: str, *, partition: str | None = None, control: bool = True) -> list[Line]:
    """The record lines of a case in the order of `cat`: by topic and partition, internal topics
    last."""
    found = [
        line
        for line in golden_kafka.records(name)
        if line["kind"] == "record"
        and partition in (None, line["partition"])
        and (control or "controlType" not in line)
    ]

    def place(line: Line) -> tuple[bool, str, int]:
        topic, _, number = line["partition"].rpartition("-")
        return topic.startswith("__"), topic, int(number)

    return sorted(found, key=place)


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 3))
def test_cat_prints_every_record_and_changes_nothing(name: str, golden_log: Any) -> None:
    root = golden_log(name)
    before = tree_hash(root)
    result = run("cat", root, "--json", "--control")
    rows = rows_of(result.stdout)
    expected = lines_of(name)
    assert len(rows) == len(expected)
    for row, line in zip(rows, expected, strict=True):
        assert list(row) == RECORD_FIELDS
        assert f"{row['topic']}-{row['partition']}" == line["partition"]
        assert (row["offset"], row["timestamp_ms"], row["sequence"]) == (
            line["offset"],
            line["timestamp"],
            line["sequence"],
        )
        assert (row["key"], row["headers"]) == (line["key"], line["headers"])
        assert row["value"] == line.get("value", row["value"])
        assert row["is_control"] == ("controlType" in line)
    bad = [line for line in golden_kafka.records(name) if line["kind"] == "batch" and not line["valid"]]
    assert result.stderr.count("skipped:") == len(bad)
    assert result.exit_code == (1 if bad or "torn: " in result.stderr else 0), result.stderr
    assert tree_hash(root) == before


@pytest.mark.parametrize("name", SMALL)
def test_cat_filters(name: str, golden_log: Any) -> None:
    root = golden_log(name)
    every = lines_of(name, control=False)
    middle = every[len(every) // 2]
    lines = [line for line in every if line["partition"] == middle["partition"]]
    topic, _, number = middle["partition"].rpartition("-")
    ask = ["cat", root, "--topic", topic, "--partition", number]

    def offsets(*more: object) -> list[int]:
        result = run(*ask, *more, "--json")
        return [row["offset"] for row in rows_of(result.stdout)]

    at, offset = middle["timestamp"], middle["offset"]
    assert offsets() == [line["offset"] for line in lines]
    assert offsets("--offset", offset) == [line["offset"] for line in lines if line["offset"] >= offset]
    assert offsets("--limit", 2) == [line["offset"] for line in lines][:2]
    assert offsets("--from", at, "--to", at) == [line["offset"] for line in lines if line["timestamp"] == at]
    assert offsets("--from", at) == [line["offset"] for line in lines if line["timestamp"] >= at]
    assert offsets("--to", at) == [line["offset"] for line in lines if line["timestamp"] <= at]
    by_path = run("cat", root / middle["partition"], "--json").stdout
    assert by_path == run(*ask, "--json").stdout


def test_internal_topics_come_last(tmp_path: Path) -> None:
    names = ["a-0", "__my-0", "__consumer_offsets-1", "z-1", "__cluster_metadata-0", "z-0", "__transaction_state-3"]
    for name in names:
        with Log.open(str(tmp_path / name)) as log:
            log.append(Record(b"k"))
    rows = run_json("cat", tmp_path)
    wanted = ["__my-0", "a-0", "z-0", "z-1", "__cluster_metadata-0", "__consumer_offsets-1", "__transaction_state-3"]
    assert [f"{row['topic']}-{row['partition']}" for row in rows] == wanted
    assert [row["topic"] for row in run_json("cat", tmp_path, "--partition", 1)] == ["z", "__consumer_offsets"]


def test_cat_of_a_single_file(golden_log: Any) -> None:
    log = golden_log("tiny-broker") / "orders-0" / f"{67:020d}.log"
    rows = run_json("cat", log)
    assert [row["offset"] for row in rows] == list(range(67, 116))
    assert {(row["topic"], row["partition"]) for row in rows} == {("orders", 0)}


def test_cat_as_a_consumer(golden_log: Any) -> None:
    root = golden_log("tiny-broker")
    for line in golden_kafka.lines("tiny-broker", "broker", "messages"):
        topic, _, number = line["partition"].rpartition("-")
        flags = ["--topic", topic, "--partition", number, "--isolation-level", line["isolation"]]
        wanted = [offset for first, last in line["offsets"] for offset in range(first, last + 1)]
        assert [row["offset"] for row in run_json("cat", root, *flags)] == wanted


def test_cat_as_text(golden_log: Any) -> None:
    result = run("cat", golden_log("tiny-broker"), "--topic", "orders", "--limit", 3)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("  ")[1:3] for line in result.stdout.splitlines()] == [
        ["orders/0", f"offset {n}"] for n in range(3)
    ]
    legacy = run("cat", golden_log("tiny-legacy"), "--topic", "v0none", "--limit", 1)
    assert legacy.stdout.startswith("-  v0none/0  offset 0  ")  # no timestamp


def test_v0_records_have_no_timestamp(golden_log: Any) -> None:
    row = run_json("cat", golden_log("tiny-legacy"), "--topic", "v0mix", "--limit", 1)[0]
    assert (row["timestamp_ms"], row["timestamp_type"], row["leader_epoch"]) == (-1, "NoTimestampType", -1)


@pytest.mark.parametrize("name", SMALL)
def test_get_by_offset_and_by_time(name: str, golden_log: Any) -> None:
    root = golden_log(name)
    for kind, field in (("lookup", "--offset"), ("timelookup", "--time")):
        asked = golden_kafka.lines(name, "loaded.full", kind)
        for line in asked[:: max(len(asked) // 6, 1)]:
            partition = root / line["partition"]
            result = run("get", partition, field, line["query"], "--count", 1, "--json", "--control")
            if result.exit_code == 2:
                assert "is not in" in result.stderr  # below the log's start or behind its end
            for row in rows_of(result.stdout):
                exact = [
                    each for each in lines_of(name, partition=line["partition"]) if each["offset"] == row["offset"]
                ]
                assert [each["timestamp"] for each in exact] == [row["timestamp_ms"]]
                assert row["offset" if kind == "lookup" else "timestamp_ms"] >= line["query"]


def test_get_says_where_it_read(golden_log: Any) -> None:
    root = golden_log("tiny-broker")
    ask = ["get", root, "--topic", "orders", "--partition", 0]
    lookup = next(
        line
        for line in golden_kafka.lines("tiny-broker", "raw", "lookup")
        if line["partition"] == "orders-0" and line["segment"] == 67 and line.get("position")
    )
    result = run(*ask, "--offset", lookup["query"], "--count", 2)
    assert f"segment 67, byte {lookup['position']} of" in result.stderr
    assert len(result.stdout.splitlines()) == 2
    by_time = run(*ask, "--time", "2023-11-14T22:13:20.068Z", "--count", 1)
    assert "offset 0, of 2023-11-14T22:13:20.068Z" in by_time.stderr
    nothing = run(*ask, "--time", "2100-01-01", "--count", 1)
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no record at or after" in nothing.stderr
    end = run(*ask, "--offset", 171)
    assert (end.exit_code, end.stdout) == (0, "")
    assert "continue at 171" in end.stderr


@pytest.mark.parametrize("name", SMALL)
def test_query_gives_every_record_of_a_key_newest_first(name: str, golden_log: Any) -> None:
    root = golden_log(name)
    lines = [line for line in lines_of(name, control=False) if line["key"] and not line["partition"].startswith("__")]
    wanted = max((line["key"] for line in lines), key=[line["key"] for line in lines].count)
    of_key = [line for line in lines if line["key"] == wanted]
    topic, _, number = of_key[0]["partition"].rpartition("-")
    key = base64.b64decode(wanted).decode("utf-8", "surrogateescape")
    offsets = [line["offset"] for line in reversed(of_key) if line["partition"] == of_key[0]["partition"]]
    ask = ["query", root, "--topic", topic, "--partition", number, "--key", key]

    def found(*arguments: object) -> list[int]:
        return [row["offset"] for row in rows_of(run(*arguments, "--json").stdout)]

    assert found(*ask) == offsets
    assert found(*ask, "--max", 1) == offsets[:1]
    for most, is_told in ((1, True), (len(offsets) - 1, True), (len(offsets), False)):
        for more in ((), ("--grep", "")):
            told = run(*ask, "--max", most, *more)
            assert ("there are more" in told.stderr) is is_told, told
            assert end_of(*ask, "--max", most, *more, exit_code=told.exit_code)["has_more"] is is_told
    assert found("query", root / of_key[0]["partition"], "--key", key) == offsets
    assert set(found("query", root, "--topic", topic, "--key", key)) >= set(offsets)
    at = of_key[0]["timestamp"]
    times = {line["offset"]: line["timestamp"] for line in of_key if line["partition"] == of_key[0]["partition"]}
    assert found(*ask, "--from", at, "--to", at) == [offset for offset in offsets if times[offset] == at]


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 3))
def test_info_says_what_the_broker_loads(name: str, golden_log: Any) -> None:
    root = golden_log(name)
    before = tree_hash(root)
    rows = {f"{row['topic']}-{row['partition']}": row for row in run_json("info", root)}
    bad = golden_kafka.cut_partitions(name)
    assert sorted(rows) == golden_kafka.partitions(name)
    for line in golden_kafka.lines(name, "loaded.full", "log"):
        row = rows[line["partition"]]
        if line["partition"] not in bad:
            offsets = (row["log_start_offset"], row["log_end_offset"], row["last_stable_offset"])
            assert offsets == (line["logStartOffset"], line["logEndOffset"], line["lastStableOffset"])
            sizes = [(each["base_offset"], each["size_bytes"]) for each in row["segments"]]
            assert [base for base, _ in sizes] == [each["base"] for each in line["segments"]]
    groups = {line["group"]: line["offsets"] for line in golden_kafka.lines(name, "broker", "group")}
    told = {
        group: {
            place: row["consumer_groups"][group]["offset"]
            for place, row in rows.items()
            if group in row["consumer_groups"]
        }
        for group in groups
    }
    assert told == groups
    text = run("info", root)
    assert text.exit_code == 0
    assert tree_hash(root) == before


def test_info_of_a_crashed_and_of_a_marked_directory(golden_log_copy: Any) -> None:
    root = golden_log_copy("tiny-crash")
    (root / "events-2").rename(root / f"events-2.{'0' * 32}-stray")
    text = run("info", root).stdout
    assert "not shut down cleanly" in text
    assert "1 marked stray" in text
    assert "ends torn" in text
    assert "ends zeros" in text
    whole = run_json("info", root, "--store")[0]
    assert (whole["engine"], whole["clean"]) == ("kafka", False)
    assert [one["mark"] for one in whole["partitions"]].count("stray") == 1
    states = {one["offset_index"]["state"] for each in whole["partitions"] for one in each["segments"]}
    assert "untrimmed" in states


def test_info_of_one_partition(golden_log: Any) -> None:
    text = run("info", golden_log("tiny-broker") / "orders-0").stdout
    assert "5 (good)" in text  # aborted transactions of the last segment
    assert "leader epochs: 0 from 0 on, 2 from 134 on" in text
    assert "transaction open since offset 166" in text


@pytest.mark.parametrize(("start", "starts"), [(5, [5, 8]), (11, [11])], ids=["first", "second"])
def test_info_of_a_file_starts_where_its_partition_does(tmp_path: Path, start: int, starts: list[int]) -> None:
    """The epochs are those of the partition, and say the same."""
    path = tmp_path / "events-0"
    with Log.open(str(path)) as log:
        for count in (8, 6):
            log.append([Record(b"k")] * count)
            log.roll()
        log.delete_records(start)
    files = sorted(path.glob("*.log"))[:-1]
    told = [run_json("info", file)[0] for file in files]
    assert [one["log_start_offset"] for one in told] == starts
    assert told[0]["leader_epochs"] == [{"epoch": 0, "start_offset": start}]
    assert [row["offset"] for row in run_json("cat", files[-1])] == [8, 9, 10, 11, 12, 13]


WRONG = {
    "queue": (["cat", "LOGS", "--queue", "1"], "--queue is a flag of RocketMQ's"),
    "geometry": (["info", "LOGS", "--max-index-num", "9"], "--max-index-num is a flag of RocketMQ's"),
    "tag": (["query", "LOGS", "--topic", "orders", "--tag", "x"], "--tag is a flag of RocketMQ's"),
    "tags": (["get", "LOGS", "--topic", "orders", "--offset", "1", "--tag", "x"], "--tag is a flag of RocketMQ's"),
    "control": (["cat", "STORE", "--control"], "--control is a flag of Kafka's, and STORE is a RocketMQ store"),
    "interval": (["cat", "STORE", "--index-interval-bytes", "9"], "--index-interval-bytes is a flag of Kafka's"),
    "version": (["verify", "LOGS", "--kafka-version", "9.9"], "kafka version '9.9' is not known"),
    "no topic": (["cat", "LOGS", "--topic", "none"], "no topic 'none'"),
    "no partition": (["cat", "LOGS", "--topic", "orders", "--partition", "9"], "the topic 'orders' has no partition 9"),
    "which": (["get", "LOGS", "--offset", "0"], "which partition?"),
    "from where": (["get", "LOGS/orders-0"], "from where?"),
    "which key": (["query", "LOGS/orders-0"], "which records?"),
    "which topic": (["query", "LOGS", "--key", "a"], "which topic?"),
    "other topic": (["cat", "LOGS/orders-0", "--topic", "audit.log"], "and not topic 'audit.log'"),
    "out of range": (["get", "LOGS/orders-0", "--offset", "999"], "offset 999 is not in 0 to 171"),
    "below": (["get", "LOGS/orders-1", "--offset", "3"], "it starts at 30: give one from 30 to 134"),
    "out of the queue": (
        ["get", "STORE", "--topic", "TopicA", "--queue", "0", "--offset", "999"],
        "offset 999 is not in ",
    ),
    "below the queue": (
        ["get", "STORE", "--topic", "TopicA", "--queue", "0", "--offset", "-1"],
        "offset -1 is not in 0 to ",
    ),
    "index": (["get", f"LOGS/orders-0/{0:020d}.index", "--offset", "0"], "a .index file"),
    "tail of an index": (["cat", f"LOGS/orders-0/{0:020d}.timeindex", "--tail", "1"], "--tail is about messages"),
    "message": (["message", "LOGS", "7F00000100002A9F0000000000000000"], "not a RocketMQ store"),
    "isolation": (["cat", "LOGS", "--isolation-level", "serializable"], "say read_uncommitted or read_committed"),
    "no queue": (["get", "STORE", "--offset", "1"], "which queue?"),
    "no topic of a store": (["query", "STORE", "--key", "a"], "which topic?"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_use_is_told_in_two_lines(what: str, golden_log: Any, golden_store: Any) -> None:
    arguments, words = WRONG[what]
    places = {"LOGS": str(golden_log("tiny-broker")), "STORE": str(golden_store("tiny-5.5.0"))}

    def put(text: str) -> str:
        for name, path in places.items():
            text = text.replace(name, path)
        return text

    result = run(*map(put, arguments))
    assert (result.exit_code, result.stdout) == (2, "")
    assert put(words) in result.stderr
    assert len(result.stderr.splitlines()) == 2
    assert result.stderr.startswith("logdex: ")


def test_a_directory_that_merely_holds_segments(golden_log: Any, tmp_path: Path) -> None:
    source = golden_log("tiny-broker") / "orders-0"
    loose = tmp_path / "loose"
    loose.mkdir()
    for path in source.glob("*.log"):
        (loose / path.name).write_bytes(path.read_bytes())
    rows = run_json("cat", loose, "--control")
    assert [row["offset"] for row in rows] == list(range(171))
    assert {(row["topic"], row["partition"]) for row in rows} == {("loose", -1)}
    told = run_json("info", loose)[0]
    assert (told["log_start_offset"], told["log_end_offset"], told["last_stable_offset"]) == (0, 171, 166)
    assert (told["clean"], told["segments"][0]["offset_index"]["state"]) == (None, "missing")
    assert run_json("get", loose, "--offset", 100, "--count", 1)[0]["offset"] == 100


def test_a_link_with_the_name_of_a_segment_is_read(golden_log: Any, tmp_path: Path) -> None:
    source, link = tmp_path / "saved.log", tmp_path / f"{0:020}.log"
    source.write_bytes((golden_log("tiny-broker") / "orders-0" / link.name).read_bytes())
    link.symlink_to(source)
    count = len(run_json("cat", link))
    assert count > 0
    assert run_json("export", link, "--output", tmp_path / "lake")[-1]["messages"] == count
    assert run("stats", link).exit_code == 0


def test_get_says_that_an_offset_is_a_marker(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0", retention_ms=-1) as log:
        with log.transaction(5) as transaction:
            transaction.append(Record(value=b"x", timestamp_ms=1000))
        log.append(Record(value=b"y"))
    for place in (("--time", 2000), ("--offset", 1)):
        told = run("get", tmp_path / "a-0", *place)
        assert "begins at offset 1, a transaction marker, which only --control shows" in told.stderr, told
        assert "transaction marker" not in run("get", tmp_path / "a-0", *place, "--control").stderr
    assert "transaction marker" not in run("get", tmp_path / "a-0", "--offset", 0).stderr


def test_stats_shows_an_empty_key(tmp_path: Path) -> None:
    with Log.open(tmp_path / "a-0") as log:
        log.append([Record(key=b"", value=b"x")] * 3)
    assert "  frequent key  '' of a, 3 messages\n" in run("stats", tmp_path).stdout
