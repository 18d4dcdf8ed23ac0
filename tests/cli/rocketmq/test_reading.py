"""cat, get, query and message on stores of real brokers: what the engine read, in the design's
field names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK
from logdex.rocketmq.message_store.message_store import MessageStore
from tests.cli.helpers import end_of, rows_of, run, run_json
from tests.directories import tree_hash
from tests.examples import cases, examples
from tests.golden import rocketmq as golden
from tests.unit.rocketmq import small_stores

MESSAGE_FIELDS = [
    *("topic", "queue_id", "queue_offset", "physical_offset", "size_bytes", "sys_flag", "flag", "born_timestamp_ms"),
    *("born_host", "store_timestamp_ms", "store_host", "reconsume_times", "prepared_transaction_offset", "body_crc"),
    *("body", "properties", "tags", "keys", "unique_key", "msg_id", "body_text"),
]
NAMES = [name for name in golden.NAMES if golden.manifest(name).get("messages")]
SMALL = [name for name in NAMES if name.startswith("tiny-")]
QUERIES = examples(12)
"""Queries of each store that go through the command line; all of them go through the library
elsewhere."""


def flags(name: str) -> list[str]:
    manifest = golden.manifest(name)
    sizes = manifest["geometry"]
    return [
        *("--mapped-file-size-commit-log", str(sizes["commitLogFileSize"])),
        *("--mapped-file-size-consume-queue", str(20 * sizes["consumeQueueEntries"])),
        *("--max-hash-slot-num", str(sizes["hashSlots"]), "--max-index-num", str(sizes["maxIndexNum"])),
        *("--rocketmq-version", manifest["rocketmq"]),
    ]


def as_in_manifest(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "physicalOffset": row["physical_offset"],
        "size": row["size_bytes"],
        "topic": row["topic"],
        "queueId": row["queue_id"],
        "queueOffset": row["queue_offset"],
        "flag": row["flag"],
        "sysFlag": row["sys_flag"],
        "bodyCRC": row["body_crc"],
        "body": row["body"],
        "bornTimestamp": row["born_timestamp_ms"],
        "storeTimestamp": row["store_timestamp_ms"],
        "reconsumeTimes": row["reconsume_times"],
        "preparedTransactionOffset": row["prepared_transaction_offset"],
        "msgId": row["msg_id"],
    }


@pytest.mark.parametrize("name", cases(NAMES, 3))
def test_cat_prints_every_message(name: str, golden_store: Any) -> None:
    store = golden_store(name)
    before = tree_hash(store)
    result = run("cat", store, "--json")
    rows = rows_of(result.stdout)
    expected = golden.manifest(name)["messages"]
    assert len(rows) == len(expected)
    for row, message in zip(rows, expected, strict=True):
        assert list(row) == MESSAGE_FIELDS
        assert as_in_manifest(row) == {field: message[field] for field in as_in_manifest(row)}
    is_good = "end of the log" in result.stderr
    assert result.exit_code == (0 if is_good else 1), result.stderr
    assert tree_hash(store) == before


@pytest.mark.parametrize("name", SMALL)
def test_cat_filters(name: str, golden_store: Any) -> None:
    store, messages = golden_store(name), golden.manifest(name)["messages"]
    middle = messages[len(messages) // 2]
    by_queue = [m for m in messages if (m["topic"], m["queueId"]) == (middle["topic"], middle["queueId"])]
    ask = ["cat", store, "--topic", middle["topic"], "--queue", middle["queueId"]]

    def places(*more: object) -> list[int]:
        result = run(*ask, *more, "--json")
        return [row["physical_offset"] for row in rows_of(result.stdout)]

    assert places() == [m["physicalOffset"] for m in by_queue]
    later = [m["physicalOffset"] for m in by_queue if m["queueOffset"] >= middle["queueOffset"]]
    assert places("--offset", middle["queueOffset"]) == later
    at = middle["storeTimestamp"]
    same_time = [m["physicalOffset"] for m in by_queue if m["storeTimestamp"] == at]
    assert places("--from", at, "--to", at) == same_time
    rest = [m["physicalOffset"] for m in by_queue if m["physicalOffset"] >= middle["physicalOffset"]]
    assert places("--physical-offset", middle["physicalOffset"]) == rest
    assert places("--limit", 1) == [by_queue[0]["physicalOffset"]]


def test_cat_as_text(golden_store: Any) -> None:
    result = run("cat", golden_store("tiny-broker"), "--topic", "Orders", "--limit", 3)
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 3
    assert all("Orders/" in line for line in result.stdout.splitlines())
    assert result.stderr == ""


def test_cat_shows_what_is_before_a_bad_message_and_says_where_it_is(golden_copy: Any) -> None:
    store, messages = golden_copy("tiny-5.5.0"), golden.manifest("tiny-5.5.0")["messages"]
    bad = messages[20]
    with (store / "commitlog" / f"{0:020d}").open("r+b") as file:
        file.seek(bad["physicalOffset"] + 4)
        file.write(b"\0\0\0\1")
    result = run("cat", store)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 20
    assert f"ends at offset {bad['physicalOffset']} (corrupt)" in result.stderr
    assert "logdex verify" in result.stderr


@pytest.mark.parametrize("name", SMALL)
def test_get_reads_a_queue(name: str, golden_store: Any) -> None:
    store = golden_store(name, recovered=golden.has_recovered(name))
    queue = max(golden.manifest(name)["queues"], key=lambda queue: queue["max"] - queue["min"])
    ask = ["get", store, *flags(name), "--topic", queue["topic"], "--queue", queue["queueId"], "--offset", queue["min"]]
    rows = run_json(*ask, "--count", 1000)
    expected = [
        entry[3]
        for entry in golden.manifest(name)["entries"]
        if entry[:2] == [queue["topic"], queue["queueId"]]
        and entry[3] >= golden.manifest(name)["store"]["minPhyOffset"]
    ]
    assert [row["physical_offset"] for row in rows] == expected
    assert [row["physical_offset"] for row in run_json(*ask, "--count", 2)] == expected[:2]
    assert [row["physical_offset"] for row in run_json(*ask, "--max-bytes", 1)] == expected[:1]
    tag = next((row["tags"] for row in rows if row["tags"]), None)
    tagged = [row["physical_offset"] for row in rows if row["tags"] == tag]
    if tag is not None:
        found = run_json(*ask, "--count", 1000, "--tag", f"{tag} || none-such")
        assert [row["physical_offset"] for row in found] == tagged
    assert "FOUND; the queue goes from" in run(*ask).stderr


@pytest.mark.parametrize("name", SMALL)
def test_get_by_time(name: str, golden_store: Any) -> None:
    store = golden_store(name, recovered=golden.has_recovered(name))
    if golden.manifest(name)["rocketmq"] < "5.1.1":
        pytest.skip("these engines go by the files' modification times, which unpacking does not keep")
    for asked in golden.manifest(name)["times"][::25]:
        where = ["--topic", asked["topic"], "--queue", asked["queueId"], "--time", asked["time"]]
        result = run("get", store, *flags(name), *where, "--count", 1)
        assert f"queue offset {asked['offset']} for that time" in result.stderr


@pytest.mark.parametrize("name", cases(NAMES, 3))
def test_query_answers(name: str, golden_store: Any) -> None:
    store = golden_store(name, recovered=golden.has_recovered(name))
    queries = golden.manifest(name)["queries"]
    for asked in queries[:: max(len(queries) // QUERIES, 1)]:
        key = "--tag" if asked["indexType"] == "T" else "--key"
        ask = ["query", store, *flags(name), "--topic", asked["topic"], key, asked["key"]]
        times = ["--from", asked["begin"], "--to", asked["end"]]
        if not golden.can_be_meant(asked):
            assert (run(*ask, *times).exit_code, asked["exact"]) == (2, [])
            continue
        exact = run_json(*ask, *times, "--scan-missing")
        assert [row["physical_offset"] for row in exact] == sorted(asked["exact"], reverse=True), asked
        broker = run_json(*ask, *times, "--max", asked["max"], "--broker-semantics")
        assert sorted(row["physical_offset"] for row in broker) == asked["physicalOffsets"], asked


def test_query_in_pages(golden_store: Any) -> None:
    asked = max(golden.manifest("tiny-5.5.0")["queries"], key=lambda asked: len(asked["exact"]))
    key = "--tag" if asked["indexType"] == "T" else "--key"
    ask = ["query", golden_store("tiny-5.5.0"), "--topic", asked["topic"], key, asked["key"]]
    whole = [row["physical_offset"] for row in run_json(*ask)]
    first = run(*ask, "--max", 3, "--json")
    found = [row["physical_offset"] for row in rows_of(first.stdout)]
    cursor = first.stderr.split("--cursor ")[1].split()[0]
    found += [row["physical_offset"] for row in run_json(*ask, "--cursor", cursor)]
    assert found == whole
    assert len(whole) > 3


def ask_for_a_hot_key(root: Path, count: int) -> subprocess.Popen[str]:
    """Asks, in a process, a new store for all of its messages: they have one key, and are more than
    a pipe holds."""
    rows = {"topic": ["T"] * count, "keys": ["hot"] * count, "body": [b"x" * 1000] * count}
    with MessageStore.open(root, max_hash_slot_num=100, max_index_num=4 * count) as store:
        assert store.put_columns(pa.table(rows)).is_stored
        assert store.wait_dispatched(60)
    command = [sys.executable, "-m", "logdex", "query", str(root), "--topic", "T", "--key", "hot", "--json"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_query_prints_before_all_is_collected(tmp_path: Path) -> None:
    with ask_for_a_hot_key(tmp_path / "store", 1_000) as process:
        assert process.stdout is not None
        first = os.read(process.stdout.fileno(), 1)  # the command now waits until the pipe is read on
        os.truncate(tmp_path / "store" / "commitlog" / f"{0:020d}", 4096)
        rest, _ = process.communicate()
    assert process.returncode == 1
    assert 1 < len(rows_of(first.decode() + rest)) < 1_000  # those that were not yet read are not there


def test_query_into_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    with ask_for_a_hot_key(tmp_path / "store", 1_000) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0


def test_query_says_what_the_index_has_lost(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    asked = max(golden.manifest("tiny-5.5.0")["queries"], key=lambda asked: len(asked["exact"]))
    key = "--tag" if asked["indexType"] == "T" else "--key"
    ask = ["query", store, *flags("tiny-5.5.0"), "--topic", asked["topic"], key, asked["key"]]
    whole = run_json(*ask)
    sorted((store / "index").iterdir())[-1].unlink()
    result = run(*ask, "--json")
    assert result.exit_code == 1
    assert "no IndexFile covers" in result.stderr
    assert "--scan-missing searches them" in result.stderr
    assert len(rows_of(result.stdout)) < len(whole)
    end = end_of(*ask, exit_code=1)
    assert (end["count"], end["is_complete"], end["is_missing_scanned"]) == (len(rows_of(result.stdout)), False, False)
    assert all(begin < stop for begin, stop in end["missing"])
    assert run_json(*ask, "--scan-missing") == whole
    searched = end_of(*ask, "--scan-missing")
    assert (searched["is_complete"], searched["is_missing_scanned"]) == (True, True)
    assert searched["missing"] == end["missing"] != []


def test_query_counts_the_entries_that_point_behind_the_end_of_the_log(tmp_path: Path) -> None:
    store = small_stores.build(tmp_path / "store", small_stores.MESSAGES)
    ask = ["query", store, "--topic", "TopicA", "--key", "hot"]
    ask += ["--mapped-file-size-consume-queue", 320, "--max-hash-slot-num", 7, "--max-index-num", 12]
    whole = end_of(*ask)
    assert (whole["count"], whole["entries_behind_end"], whole["log_end"]) == (20, 0, None)
    last = run_json(*ask)[0]["physical_offset"]
    with (store / "commitlog" / f"{2 * small_stores.FILE_SIZE:020d}").open("r+b") as file:
        file.seek(last % small_stores.FILE_SIZE + 4)
        file.write(b"harm")
    end = end_of(*ask)
    assert (end["count"], end["entries_behind_end"]) == (19, 1)
    assert (end["log_end"]["offset"], end["log_end"]["kind"]) == (last, "corrupt")
    assert "1 index entry points past the end of the CommitLog" in run(*ask).stderr


@pytest.mark.parametrize("name", cases(NAMES, 3))
def test_message_by_its_id(name: str, golden_store: Any) -> None:
    store, messages = golden_store(name), golden.manifest(name)["messages"]
    for message in messages[:: max(len(messages) // 3, 1)]:
        (row,) = run_json("message", store, message["msgId"])
        assert row["physical_offset"] == message["physicalOffset"]
        assert row["msg_id"] == message["msgId"]


def test_message_by_unique_key_and_as_text(golden_store: Any) -> None:
    store = golden_store("tiny-5.5.0")
    row = next(row for row in run_json("cat", store) if row["unique_key"])
    (found,) = run_json("message", store, row["unique_key"], "--topic", row["topic"])
    assert found == row
    text = run("message", store, row["msg_id"]).stdout
    assert f"unique_key                   {row['unique_key']}" in text
    assert "\nbody " in text


@pytest.mark.parametrize(
    ("arguments", "exit_code", "words"),
    [
        (["7F00000100002A9F0000000000000001"], 1, "byte 5: no message starts here"),
        (["7F00000100002A9F0000000010000000"], 1, "no message at"),
        (["0A00000100002A9F0000000000000000"], 1, "was stored by 127.0.0.1:10911, not 10.0.0.1:10911"),
        (["7F"], 2, "32 or 56 hexadecimal digits"),
        (["7F", "--topic", "AaTopic"], 1, "has this id"),
    ],
)
def test_messages_that_are_not_there(arguments: list[str], exit_code: int, words: str, golden_store: Any) -> None:
    result = run("message", golden_store("tiny-5.5.0"), *arguments)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert words in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["get", "--topic", "t", "--queue", "0"],
        ["get", "--topic", "t", "--queue", "0", "--offset", "0", "--time", "0"],
        ["query", "--topic", "t"],
        ["query", "--topic", "t", "--key", "k", "--tag", "g"],
        ["query", "--topic", "t", "--key", "k", "--broker-semantics", "--scan-missing"],
        ["query", "--topic", "t", "--key", "k", "--from", "yesterday"],
        ["cat", "--to", "noon"],
        ["info", "--store"],
    ],
)
def test_wrong_usage_is_a_line_and_a_hint(arguments: list[str], golden_store: Any) -> None:
    command, *more = arguments
    result = run(command, golden_store("tiny-5.5.0"), *more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 2


def test_a_queue_that_is_not_there_is_told_with_what_to_type(golden_store: Any) -> None:
    result = run("get", golden_store("tiny-5.5.0"), "--topic", "nope", "--queue", "0", "--offset", "0")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no topic 'nope'" in result.stderr
    assert "logdex info" in result.stderr.splitlines()[1]


def test_queued_messages_only(golden_store: Any) -> None:
    """PREPARED and ROLLBACK are in the log and in no queue."""
    store = golden_store("tiny-broker")
    queued = [
        row
        for row in run_json("cat", store)
        if row["sys_flag"] & SYS_FLAG_TRANSACTION_MASK not in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK)
    ]
    assert len(queued) == sum(row["messages"] for row in run_json("info", store))


def test_names_that_are_not_utf8(tmp_path: Path, golden_copy: Any) -> None:
    store = golden_copy("tiny-crash")
    log = store / "commitlog" / f"{0:020d}"
    data = log.read_bytes()
    assert b"AaTopic" in data
    log.write_bytes(data.replace(b"AaTopic", b"Aa\xff\x1bpic"))
    rows = run_json("cat", store)
    assert any(row["topic"] == "Aa\\xff\x1bpic" for row in rows)
    assert "Aa\\xff\\x1bpic/0" in run("cat", store).stdout
    result = run("rebuild", store, "-o", tmp_path / "out")
    assert result.exit_code in (0, 3)
    assert "Aa\\xff" in run("info", store).stdout
