"""One file of a RocketMQ store by itself: every command on a CommitLog file of real brokers, `info`
on all others."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.layout.rocketmq import (
    CONSUME_QUEUE_ENTRY,
    MESSAGE_HEAD,
    PRE_BLANK_SIZE,
    SYS_FLAG_PREPARED,
    SYS_FLAG_ROLLBACK,
    SYS_FLAG_TRANSACTION_MASK,
)
from logdex.rocketmq.read.results import GetMessageStatus
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.cli.helpers import end_of, rows_of, run, run_json
from tests.cli.rocketmq.test_reading import as_in_manifest
from tests.cli.rocketmq.tiny_stores import usual
from tests.directories import digests, tree_hash
from tests.golden import rocketmq as golden

NAME = "tiny-5.5.0"
SECOND = "00000000000000032768"
"""The second of three files of 32 KiB."""


def messages_of(file: Path, start_offset: int, name: str = NAME) -> list[dict[str, Any]]:
    """What the engine read of the messages in a file."""
    end = start_offset + file.stat().st_size
    return [one for one in golden.manifest(name)["messages"] if start_offset <= one["physicalOffset"] < end]


@pytest.fixture
def store(golden_store: Any) -> Path:
    found: Path = golden_store(NAME)
    return found


@pytest.fixture(params=["in its store", "alone", "a foreign name"])
def file(request: pytest.FixtureRequest, store: Path, tmp_path: Path) -> Path:
    """The second CommitLog file, in three places."""
    there = store / "commitlog" / SECOND
    if request.param == "in its store":
        return there
    copy = tmp_path / "alone" / (SECOND if request.param == "alone" else "from the disk.bin")
    copy.parent.mkdir()
    return Path(shutil.copy(there, copy))


@pytest.mark.parametrize("name", [name for name in golden.NAMES if name.startswith("tiny-5")])
def test_cat_of_each_file_is_what_the_engine_read(name: str, golden_store: Any) -> None:
    for file in sorted((golden_store(name) / "commitlog").iterdir()):
        rows = [as_in_manifest(row) for row in run_json("cat", file)]
        expected = messages_of(file, int(file.name), name)
        assert rows == [{field: one[field] for field in row} for row, one in zip(rows, expected, strict=True)]


def test_info(file: Path) -> None:
    before, expected = tree_hash(file.parent), messages_of(file, 32768)
    queues = run_json("info", file)
    spans: dict[tuple[str, int], list[int]] = {}
    for one in expected:
        if one["sysFlag"] & SYS_FLAG_TRANSACTION_MASK not in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK):
            spans.setdefault((one["topic"], one["queueId"]), []).append(one["queueOffset"])
    ranges = {(row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"]) for row in queues}
    assert ranges == {name: (min(offsets), max(offsets) + 1) for name, offsets in spans.items()}
    (whole,) = run_json("info", file, "--store")
    log = whole["commit_log"]
    assert (log["min_offset"], log["end_offset"], log["files"], log["size_bytes"]) == (32768, 65536, 1, 32768)
    assert (log["messages"], log["end"], whole["clean"], whole["one_file"]) == (
        len(expected), "end of files", None, True,
    )  # fmt: skip
    assert log["begin_timestamp_ms"] == expected[0]["storeTimestamp"]
    shown = run("info", file)
    assert shown.stdout.startswith(f"{file}: one RocketMQ CommitLog file\n")
    assert f"{len(expected)} messages, {len({topic for topic, _ in spans})} topics" in shown.stdout
    assert tree_hash(file.parent) == before


def test_cat_filters(file: Path) -> None:
    expected = messages_of(file, 32768)
    middle = expected[len(expected) // 2]
    queue = {"--topic": middle["topic"], "--queue": middle["queueId"], "--offset": middle["queueOffset"]}
    rows = run_json("cat", file, *(word for pair in queue.items() for word in pair), "--limit", 1)
    first = next(
        one for one in expected
        if (one["topic"], one["queueId"]) == (middle["topic"], middle["queueId"])
        and one["queueOffset"] >= middle["queueOffset"]
    )  # fmt: skip
    assert [row["physical_offset"] for row in rows] == [first["physicalOffset"]]
    rows = run_json("cat", file, "--physical-offset", middle["physicalOffset"])
    assert [row["physical_offset"] for row in rows] == [one["physicalOffset"] for one in expected[len(expected) // 2 :]]
    time = middle["storeTimestamp"]
    rows = run_json("cat", file, "--from", time, "--to", time)
    assert len(rows) == sum(one["storeTimestamp"] == time for one in expected) > 0


def test_get_scans_for_the_queue(file: Path, store: Path) -> None:
    topic, queue = "BBTopic", 0
    rows = run_json("get", store, "--topic", topic, "--queue", queue, "--offset", 0, "--count", 1000)
    inside = [row for row in rows if 32768 <= row["physical_offset"] < 65536]
    first = inside[0]["queue_offset"]
    assert len(inside) > 3
    assert first > 0
    ask = ["get", file, "--topic", topic, "--queue", queue]
    assert run_json(*ask, "--offset", first, "--count", 1000) == inside
    assert run_json(*ask, "--offset", first + 1, "--count", 1) == [inside[1]]
    tag = next(row["tags"] for row in inside if row["tags"])
    tagged = [row for row in inside if row["tags"] == tag]
    assert run_json(*ask, "--offset", first, "--count", 1000, "--tag", tag) == tagged
    told = run(*ask, "--offset", first - 1)
    assert told.exit_code == 2
    assert f"{file} is one CommitLog file, without an index: it was scanned" in told.stderr
    assert f"offset {first - 1} is not in {first} to {inside[-1]['queue_offset'] + 1}" in told.stderr
    assert '"status": "OFFSET_TOO_SMALL"' in run(*ask, "--offset", first - 1, "--json").stdout
    told = run("get", file, "--topic", "none", "--queue", 0, "--offset", 0)
    assert (told.exit_code, told.stderr.splitlines()[0]) == (2, f"logdex: {file}: no topic 'none'")


def test_get_by_time_and_all_queues_are_those_of_a_store_of_this_file(file: Path, tmp_path: Path) -> None:
    root = store_of(file, tmp_path / "store")
    run("rebuild", root, "--in-place", "--no-sync", "--max-hash-slot-num", 100, "--max-index-num", 5000)
    with StoreSnapshot(str(file)) as alone, StoreSnapshot(str(root)) as whole:
        found = alone.queues()
        assert [one[:4] for one in map(vars_of, found)] == [one[:4] for one in map(vars_of, whole.queues())]
        for queue in found:
            name = (queue.topic, queue.queue_id)
            asked = [
                snapshot.get_message(*name, snapshot.get_offset_in_queue_by_time(*name, time), 1000)
                for time in (0, 1_700_000_002_000, 1 << 61)
                for snapshot in (alone, whole)
            ]
            assert asked[0::2] == asked[1::2]
            assert asked[0].status is GetMessageStatus.FOUND


def vars_of(queue: Any) -> tuple[Any, ...]:
    return queue.topic, queue.queue_id, queue.min_offset, queue.max_offset


def store_of(file: Path, root: Path) -> Path:
    """A store whose log is one file."""
    (root / "commitlog").mkdir(parents=True)
    shutil.copy(file, root / "commitlog" / SECOND)
    return root


def test_query_scans(file: Path) -> None:
    rows = run_json("cat", file)
    key, topic = next((row["keys"][0], row["topic"]) for row in rows if row["keys"])
    expected = [row for row in reversed(rows) if row["topic"] == topic and key in row["keys"]]
    result = run("query", file, "--topic", topic, "--key", key, "--json")
    assert rows_of(result.stdout) == expected
    assert (result.exit_code, result.stderr.count("\n")) == (0, 1)
    assert "without an index: it was scanned" in result.stderr
    assert run_json("query", file, "--topic", topic, "--key", key, "--max", 1) == expected[:1]
    refused = run("query", file, "--topic", topic, "--key", key, "--broker-semantics")
    assert (refused.exit_code, "has no index" in refused.stderr) == (2, True)


def test_message_by_its_id(file: Path) -> None:
    row = run_json("cat", file, "--limit", 3)[2]
    assert run_json("message", file, row["msg_id"]) == [row]
    assert run_json("message", file, row["unique_key"], "--topic", row["topic"]) == [row]
    elsewhere = row["msg_id"][:-16] + f"{100:016X}"
    missed = run("message", file, elsewhere)
    assert missed.exit_code == 1
    assert "100" in missed.stderr


def test_verify_looks_at_the_file_alone(file: Path) -> None:
    note, report = run_json("verify", file)
    assert (note["kind"], report["messages"]) == ("one-file", len(messages_of(file, 32768)))


def test_rebuild_is_that_of_a_store_of_this_file(file: Path, tmp_path: Path) -> None:
    sizes = ["--max-hash-slot-num", 101, "--max-index-num", 500, "--mapped-file-size-consume-queue", 400, "--no-sync"]
    told = run("rebuild", file, "-o", tmp_path / "one", *sizes)
    assert told.exit_code == 0, told.stderr
    assert "queues and index cover its messages only" in told.stderr
    assert run("rebuild", store_of(file, tmp_path / "s"), "-o", tmp_path / "two", *sizes).exit_code == 0
    assert digests(tmp_path / "one") == digests(tmp_path / "two") != {}
    in_place = run("rebuild", file, "--in-place")
    assert (in_place.exit_code, "give --output DIR" in in_place.stderr) == (2, True)


def test_rebuild_of_one_file_does_not_replace_its_stores_queues(golden_copy: Any) -> None:
    root = golden_copy(NAME)
    before = tree_hash(root)
    refused = run("rebuild", root / "commitlog" / SECOND, "-o", root)
    assert (refused.exit_code, "lies in" in refused.stderr) == (2, True)
    assert tree_hash(root) == before


def test_opened_in_python(file: Path) -> None:
    with logdex.open(file) as snapshot:
        assert isinstance(snapshot, StoreSnapshot)
        assert snapshot.scan().to_arrow().read_all().num_rows == len(messages_of(file, 32768))
        snapshot.refresh()
        assert snapshot.valid_end_offset == 65536


def test_a_cut_file(store: Path, tmp_path: Path) -> None:
    whole, cut = store / "commitlog" / SECOND, tmp_path / "cut.bin"
    rows = run_json("cat", whole)
    last = rows[-3]
    place = last["physical_offset"] - 32768
    cut.write_bytes(whole.read_bytes()[: place + 100])
    result = run("cat", cut, "--json")
    assert (result.exit_code, len(rows_of(result.stdout))) == (1, len(rows) - 3)
    assert f"the log ends at offset {last['physical_offset']} (torn)" in result.stderr
    finding = run_json("verify", cut, exit_code=1)[0]
    assert (finding["check"], finding["path"], finding["position"]) == ("torn-tail", str(cut), place)
    first = next(row["queue_offset"] for row in rows if (row["topic"], row["queue_id"]) == (last["topic"], 0))
    for ask in (["query", "--key", "none"], ["get", "--queue", 0, "--offset", first]):
        told = run(ask[0], cut, "--topic", last["topic"], *ask[1:])
        assert (told.exit_code, f"at offset {last['physical_offset']} (torn)" in told.stderr) == (1, True)
    assert run("rebuild", cut, "-o", tmp_path / "out", "--no-sync").exit_code == 3
    between = tmp_path / SECOND
    between.write_bytes(whole.read_bytes()[:place])
    assert "without a filler" in run("cat", between).stderr


def test_a_flipped_byte_is_told_where_it_is(store: Path, tmp_path: Path) -> None:
    whole, harmed = store / "commitlog" / SECOND, tmp_path / SECOND
    row = run_json("cat", whole)[10]
    place = row["physical_offset"] - 32768
    data = bytearray(whole.read_bytes())
    data[place + 100] ^= 1
    harmed.write_bytes(data)
    before = tree_hash(tmp_path)
    result = run("cat", harmed)
    assert (result.exit_code, len(result.stdout.splitlines())) == (1, 10)
    told = re.search(f"{harmed}: byte ([0-9]+): ", result.stderr)
    assert told is not None
    assert place <= int(told[1]) < place + row["size_bytes"]
    found = run_json("verify", harmed, exit_code=1)[0]
    assert (found["check"], found["path"]) == ("message-crc", str(harmed))
    assert place <= found["position"] < place + row["size_bytes"]
    end = end_of("query", harmed, "--topic", row["topic"], "--key", row["unique_key"], exit_code=1)
    assert (end["count"], end["is_complete"], end["log_end"]["offset"]) == (0, False, row["physical_offset"])
    assert end["log_end"]["reason"] in result.stderr
    assert run("message", harmed, row["msg_id"]).exit_code == 1
    assert tree_hash(tmp_path) == before


def test_a_first_message_that_says_nothing(store: Path, tmp_path: Path) -> None:
    data = bytearray((store / "commitlog" / SECOND).read_bytes())
    data[MESSAGE_HEAD.offset_of("physical_offset")] ^= 0x80
    (tmp_path / "odd.bin").write_bytes(data)
    told = run("cat", tmp_path / "odd.bin")
    assert told.exit_code == 1
    assert "odd.bin: byte 28: the first message does not say where in the log this file lies" in told.stderr
    assert "20 digits" in told.stderr
    data[MESSAGE_HEAD.offset_of("magic")] ^= 1
    (tmp_path / "odd.bin").write_bytes(data)
    nothing = run("cat", tmp_path / "odd.bin")
    assert (nothing.exit_code, "a CommitLog file" in nothing.stderr) == (2, True)
    (tmp_path / SECOND).write_bytes(data)  # the name says where it lies
    assert f"{SECOND}: byte {MESSAGE_HEAD.offset_of('magic')}: " in run("cat", tmp_path / SECOND).stderr


@pytest.mark.parametrize("data", [b"", bytes(4096)])
def test_a_file_that_nothing_was_written_to(data: bytes, tmp_path: Path) -> None:
    (tmp_path / SECOND).write_bytes(data)
    assert run_json("cat", tmp_path / SECOND) == []
    (whole,) = run_json("info", tmp_path / SECOND, "--store")
    assert (whole["commit_log"]["messages"], whole["commit_log"]["min_offset"]) == (0, 32768)


# -- files that go with a log --------------------------------------------------------------------
@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return usual(tmp_path / "tiny")[0]


def test_info_of_a_consume_queue_file(tiny: Path, tmp_path: Path) -> None:
    queue = tiny / "consumequeue" / "TopicA" / "0"
    (row,) = run_json("info", queue / f"{0:020d}")
    (in_log,) = [one for one in run_json("cat", tiny, "--topic", "TopicA", "--queue", 0) if one["queue_offset"] == 3]
    expected = {"kind": "consume_queue", "topic": "TopicA", "queue_id": 0, "entries": 4, "min_offset": 0}
    expected |= {"max_offset": 4, "begin_phy_offset": 0, "size_bytes": 80, "problems": []}
    assert row.items() >= expected.items()
    assert row["end_phy_offset"] == in_log["physical_offset"] + in_log["size_bytes"]
    alone = Path(shutil.copy(queue / f"{80:020d}", tmp_path))
    (row,) = run_json("info", alone)
    assert (row["topic"], row["min_offset"], row["max_offset"]) == (None, 4, 5)
    alone.write_bytes(alone.read_bytes()[:70])
    shutil.move(alone, queue / alone.name)
    (row,) = run_json("info", queue / alone.name, exit_code=1)
    assert "70, no multiple of 20" in row["problems"][0]


def test_info_of_a_consume_queue_file_with_gaps(tmp_path: Path) -> None:
    entries = [CONSUME_QUEUE_ENTRY.pack(*entry) for entry in [(0, PRE_BLANK_SIZE, 0), (500, 91, 7)]]
    path = tmp_path / f"{400:020d}"
    path.write_bytes(b"".join(entries[number] for number in (0, 0, 1, 0, 0, 0, 0, 1)).ljust(400, b"\0"))
    (row,) = run_json("info", path)
    assert (row["min_offset"], row["max_offset"], row["entries"], row["pre_blank_entries"]) == (22, 28, 8, 6)
    assert (row["begin_phy_offset"], row["end_phy_offset"]) == (500, 591)


def test_info_of_an_index_file(golden_store: Any) -> None:
    first = min((golden_store(NAME) / "index").iterdir())
    (row,) = run_json("info", first)
    sizes = golden.manifest(NAME)["geometry"]
    assert (row["max_hash_slot_num"], row["max_index_num"]) == (sizes["hashSlots"], sizes["maxIndexNum"])
    assert (row["kind"], row["entries"], row["begin_phy_offset"]) == ("index", sizes["maxIndexNum"] - 1, 0)
    assert f"an IndexFile of the store {first.parent.parent}" in run("info", first).stdout


def test_info_of_a_cut_index_file_and_checkpoint(tiny: Path, tmp_path: Path) -> None:
    for path, at in ((tmp_path / "20231114221320000", 39), (tmp_path / "checkpoint", 10)):
        path.write_bytes(bytes(at))
        told = run("info", path)
        assert (told.exit_code, f"{path}: byte {at}" in told.stderr) == (1, True)


def test_info_of_small_files(tiny: Path) -> None:
    (row,) = run_json("info", tiny / "checkpoint")
    assert (row["kind"], row["master_flushed_offset"], row["problems"]) == ("checkpoint", 800, [])
    for name in ("consumerOffset.json", "consumerOffset.json.bak"):
        (row,) = run_json("info", tiny / "config" / name)
        assert row["content"]["offsetTable"]["TopicA@G"]["0"] == (2 if name.endswith(".bak") else 3)
    assert '"TopicA@G"' in run("info", tiny / "config" / "consumerOffset.json").stdout
    (tiny / "config" / "topics.json").write_bytes(b'{"a" 1}')
    broken = run("info", tiny / "config" / "topics.json")
    assert (broken.exit_code, "topics.json: byte 5" in broken.stderr) == (1, True)


@pytest.mark.parametrize("command", ["cat", "get", "query", "message", "verify", "rebuild"])
def test_other_commands_say_what_to_give_instead(command: str, tiny: Path, tmp_path: Path) -> None:
    flags: dict[str, list[Any]] = {
        "get": ["--topic", "TopicA", "--queue", 0, "--offset", 0],
        "query": ["--topic", "TopicA", "--key", "hot"],
        "message": ["7F00000100002A9F0000000000000000"],
        "rebuild": ["-o", tmp_path / "out"],
    }
    before = tree_hash(tiny)
    index = min((tiny / "index").iterdir())
    for path in (tiny / "consumequeue" / "TopicA" / "0" / f"{0:020d}", index, tiny / "checkpoint",
                 tiny / "config" / "topics.json"):  # fmt: skip
        if command == "cat" and path.suffix != ".json":
            continue  # it lists their entries
        told = run(command, path, *flags.get(command, []))
        assert (told.exit_code, told.stdout) == (2, ""), told
        assert f"which contains no messages\n        give the store's root: {tiny};" in told.stderr
    assert tree_hash(tiny) == before


def test_files_of_layouts_that_are_not_read(tmp_path: Path) -> None:
    for folder in ("dledger-n0/data", "consumequeue_ext/TopicA/0"):
        path = tmp_path / folder / f"{0:020d}"
        path.parent.mkdir(parents=True)
        path.write_bytes(bytes(100))
        assert run("cat", path).exit_code == 2
