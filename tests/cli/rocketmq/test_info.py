"""logdex info: on stores of real brokers, without ConsumeQueues, and on what is no store."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import run, run_json
from tests.directories import tree_hash
from tests.golden import rocketmq as golden

NAMES = [name for name in golden.NAMES if golden.manifest(name).get("queues")]
QUEUE_FIELDS = [
    *("topic", "queue_id", "min_offset", "max_offset", "first_available_offset", "files", "size_bytes"),
    *("begin_timestamp_ms", "end_timestamp_ms", "messages", "consumer_groups"),
]


@pytest.mark.parametrize("name", NAMES)
def test_queues_are_the_engines(name: str, golden_store: Any) -> None:
    manifest = golden.manifest(name)
    store = golden_store(name, recovered=golden.has_recovered(name))
    before = tree_hash(store)
    rows = run_json("info", store)
    expected = {
        (queue["topic"], queue["queueId"]): (queue["min"], queue["max"])
        for queue in manifest["queues"]
        if queue["max"] or (store / "consumequeue" / queue["topic"] / str(queue["queueId"])).is_dir()
    }
    assert {(row["topic"], row["queue_id"]): (row["min_offset"], row["max_offset"]) for row in rows} == expected
    assert all(list(row) == QUEUE_FIELDS for row in rows)
    assert tree_hash(store) == before


def test_messages_begin_at_the_first_that_the_log_holds(golden_store: Any) -> None:
    """The engine's minimum is 0 where a queue's first file only has entries of removed messages."""
    rows = run_json("info", golden_store("tiny-expired"))
    found = {(row["topic"], row["queue_id"]): (row["first_available_offset"], row["messages"]) for row in rows}
    assert found == {("TopicA", 0): (7, 12), ("TopicA", 1): (11, 22), ("TopicB", 0): (9, 22), ("TopicB", 1): (3, 11)}


@pytest.mark.parametrize("name", ["tiny-5.5.0", "tiny-4.7.0", "tiny-4.9.7", "tiny-expired"])
def test_the_store_as_one_object(name: str, golden_store: Any) -> None:
    manifest = golden.manifest(name)
    (store,) = run_json("info", golden_store(name), "--store")
    messages = manifest["messages"]
    assert store["clean"] is not manifest["unclean"]
    assert store["geometry"]["mapped_file_size_commit_log"] == manifest["geometry"]["commitLogFileSize"]
    assert store["geometry"]["max_hash_slot_num"] == manifest["geometry"]["hashSlots"]
    assert store["geometry"]["max_index_num"] == manifest["geometry"]["maxIndexNum"]
    assert store["commit_log"]["min_offset"] == manifest["store"]["minPhyOffset"]
    assert store["commit_log"]["end_offset"] == manifest["store"]["maxPhyOffset"]
    assert store["commit_log"]["begin_timestamp_ms"] == messages[0]["storeTimestamp"]
    assert store["commit_log"]["end_timestamp_ms"] == messages[-1]["storeTimestamp"]
    files = manifest["files"]
    assert store["index"]["files"] == sum(path.startswith("index/") for path in files)
    assert store["consume_queues"]["files"] == sum(path.startswith("consumequeue/") for path in files)
    assert store["evidence"]


def test_a_log_alone_has_its_queues_from_a_scan(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    before = {(row["topic"], row["queue_id"]): row for row in run_json("info", store)}
    for part in ("consumequeue", "index", "checkpoint", "lock", "abort.bak", "rocksdbstore"):
        path = store / part
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    after = {(row["topic"], row["queue_id"]): row for row in run_json("info", store)}
    assert after.keys() == before.keys()
    for name, row in after.items():
        assert row["files"] == 0
        for field in ("min_offset", "max_offset", "begin_timestamp_ms", "end_timestamp_ms"):
            assert row[field] == before[name][field], (name, field)
    assert "a scan of the CommitLog finds" in run("info", store).stdout


def test_consumer_groups_and_their_lag(golden_store: Any) -> None:
    rows = run_json("info", golden_store("tiny-broker"))
    groups = {
        (row["topic"], row["queue_id"], name): group for row in rows for name, group in row["consumer_groups"].items()
    }
    assert groups["Orders", 0, "G_all"] == {"offset": 12, "lag": 0}
    assert "G_all" in run("info", golden_store("tiny-broker")).stdout


def test_messages_that_are_left_are_told_and_counted_by_one_rule(golden_copy: Any) -> None:
    """The engine's minimum is 0 there, and a group that is at 5 cannot get what was removed."""
    store = golden_copy("tiny-expired")
    lines = [line.split() for line in run("info", store).stdout.splitlines()]
    heading = next(number for number, line in enumerate(lines) if line[:1] == ["TOPIC"])
    assert lines[heading][:7] == ["TOPIC", "QUEUE", "MIN", "AVAILABLE", "FROM", "MAX", "(EXCL.)"]
    assert lines[heading + 2][:6] == ["TopicA", "1", "0", "11", "33", "22"]
    assert "AVAILABLE" not in run("info", golden_copy("tiny-5.5.0")).stdout
    config = {"offsetTable": {"TopicA@G": {"1": 5}, "TopicB@G": {"0": 30}}}
    (store / "config").mkdir(exist_ok=True)
    (store / "config" / "consumerOffset.json").write_text(json.dumps(config))
    told = {(row["topic"], row["queue_id"]): row["consumer_groups"] for row in run_json("info", store)}
    assert told["TopicA", 1] == {"G": {"offset": 5, "lag": 22}}
    lags = {("TopicA", 1): 22, ("TopicB", 0): told["TopicB", 0]["G"]["lag"]}
    offsets = {(row["topic"], row["queue_id"]): row["lag"] for row in run_json("offsets", store) if row["offset"]}
    assert offsets == lags
    asked = run_json("sql", store, "select topic, queue_id, lag from consumer_offsets")
    assert {(row["topic"], row["queue_id"]): row["lag"] for row in asked} == lags
    (stats,) = run_json("stats", store)
    assert {(row["topic"], row["queue"]): row["lag"] for row in stats["groups"]} == lags


def test_text(golden_store: Any) -> None:
    text = run("info", golden_store("tiny-crash")).stdout
    assert "abort file" in text
    assert "TOPIC" in text
    assert "3 files of 32.0 KiB" in run("info", golden_store("tiny-5.5.0")).stdout


def test_a_harmed_queue_is_told_and_the_rest_is_shown(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    (store / "checkpoint").write_bytes(b"short")
    result = run("info", store)
    assert result.exit_code == 1
    assert "checkpoint: byte 5" in result.stderr
    assert "AaTopic" in result.stdout


def test_a_missing_middle_file_is_shown(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    (store / "commitlog" / f"{32768:020d}").unlink()
    result = run("info", store)
    assert "missing: offsets 32768 to 65536" in result.stdout


def test_an_index_of_no_known_geometry_is_a_problem_not_an_end(golden_copy: Any) -> None:
    store = golden_copy("tiny-crash")
    (store / "index").mkdir()
    (store / "index" / "20260101000000000").write_bytes(b"x" * 10_000)
    result = run("info", store)
    assert result.exit_code == 1
    assert "shows no maxHashSlotNum" in result.stderr
    assert "AaTopic" in result.stdout
    assert "index: the defaults, since" in result.stdout
    assert "as given" not in result.stdout
    result = run("verify", store)
    assert result.exit_code == 1
    assert "--max-hash-slot-num" in result.stderr
    assert "[index-file-size]" in result.stdout


@pytest.mark.parametrize("command", ["info", "cat", "verify", "rebuild", "bench", "query", "get", "message"])
@pytest.mark.parametrize("kind", ["empty", "wrong", "file", "missing", "above", "part"])
def test_what_is_no_store_is_one_clear_line(command: str, kind: str, golden_store: Any, tmp_path: Path) -> None:
    path, words = (
        tmp_path / "x",
        {
            "empty": "directory is empty",
            "wrong": "no commitlog/",
            "file": "a file",
            "missing": "no such file",
            "above": "a directory above a RocketMQ store",
            "part": "a part of a store",
        }[kind],
    )
    match kind:
        case "empty":
            path.mkdir()
        case "wrong":
            (path / "something").mkdir(parents=True)
        case "file":
            path.write_text("x")
        case "above":
            path = golden_store("tiny-crash").parent
        case "part":
            path = golden_store("tiny-crash") / "commitlog"
    options: dict[str, list[object]] = {
        "rebuild": ["--output", tmp_path / "out"],
        "query": ["--topic", "t", "--key", "k"],
        "get": ["--topic", "t", "--queue", "0", "--offset", "0"],
        "message": ["7F00000100002A9F0000000000000000"],
    }
    result = run(command, path, *options.get(command, []))
    assert (result.exit_code, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert words in result.stderr
    assert lines[0].startswith("logdex: ")
    assert len(lines) == 2
    assert not (tmp_path / "out").exists()


def test_info_and_help_start_without_the_heavy_libraries(golden_store: Any) -> None:
    """llvmlite, which the guard over mappings takes, is a tenth of Numba, and Rich's table of wide
    characters takes 2 ms."""
    for arguments in (["--help"], ["info", "--help"], ["info", str(golden_store("tiny-5.5.0"))]):
        code = (
            "import sys\n"
            "from logdex.cli import main\n"
            f"sys.argv = ['logdex', *{arguments!r}]\n"
            "try:\n    main()\n"
            "finally:\n"
            "    heavy = {'numba', 'pyarrow', 'pyspark', 'rich.console', 'pandas'} & set(sys.modules)\n"
            "    print('heavy:', sorted(heavy), file=sys.stderr)\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stderr == "heavy: []\n", arguments


def test_a_missing_file_in_the_middle_is_said(golden_copy: Any) -> None:
    store = golden_copy("tiny-5.5.0")
    (store / "commitlog" / f"{32768:020d}").unlink()
    for flags in ([], ["--json"], ["--json", "--store"]):
        result = run("info", store, *flags)
        assert result.exit_code == 1
        assert "CommitLog offsets 32768 to" in result.stderr
