"""`cat` of one file beside a .log lists its entries."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka.state.producer_snapshot import load_producer_snapshot
from tests.cli.helpers import run, run_json
from tests.directories import tree_hash

BASE = f"{67:020d}"


def slots(path: Path, layout: str) -> list[tuple[int, ...]]:
    """The entries of a sparse index without zeros at its end."""
    found = [*struct.iter_unpack(layout, path.read_bytes())]
    while found and not any(found[-1]):
        found.pop()
    return found


def test_indexes(golden_log: Any) -> None:
    root = golden_log("tiny-broker")
    before = tree_hash(root)
    partition = root / "orders-0"
    index = partition / f"{BASE}.index"
    expected = [{"offset": 67 + relative, "position": position} for relative, position in slots(index, ">ii")]
    assert run_json("cat", index) == expected != []
    assert run_json("cat", index, "--limit", 1) == expected[:1]
    assert run("cat", index, "--columns", "position", "--limit", 1).stdout == f"{expected[0]['position']}\n"
    first = expected[0]
    assert run("cat", index, "--limit", 1).stdout == f"offset {first['offset']}  position {first['position']}\n"
    times = partition / f"{BASE}.timeindex"
    assert run_json("cat", times) == [{"timestamp_ms": t, "offset": 67 + at} for t, at in slots(times, ">qi")]
    assert "Z)  offset " in run("cat", times, "--limit", 1).stdout
    for path in partition.glob("*.txnindex"):
        names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        rows = [dict(zip(names, row[1:], strict=True)) for row in struct.iter_unpack(">hqqqq", path.read_bytes())]
        assert run_json("cat", path) == rows
    assert tree_hash(root) == before


def test_snapshots_of_producers(golden_log: Any) -> None:
    paths = [*golden_log("tiny-broker").rglob("*.snapshot")]
    assert paths
    for path in paths:
        states = load_producer_snapshot(str(path))
        assert [row["producer_id"] for row in run_json("cat", path)] == [state.producer_id for state in states]


def test_info_of_one_file(golden_log: Any, tmp_path: Path) -> None:
    root = golden_log("tiny-broker")
    partition = root / "orders-0"
    (row,) = run_json("info", partition / f"{BASE}.index")
    entries = run_json("cat", partition / f"{BASE}.index")
    assert (row["kind"], row["engine"], row["base_offset"], row["problems"]) == ("index", "kafka", 67, [])
    assert (row["entries"], row["last_offset"]) == (len(entries), entries[-1]["offset"])
    (row,) = run_json("info", partition / f"{BASE}.timeindex")
    assert row["end_timestamp_ms"] == run_json("cat", partition / f"{BASE}.timeindex")[-1]["timestamp_ms"]
    for path in [*root.rglob("*.txnindex"), *root.rglob("*.snapshot")]:
        (row,) = run_json("info", path)
        assert row.get("entries", row.get("producers")) == len(run_json("cat", path))
    text = run("info", partition / f"{BASE}.index").stdout
    assert text.startswith(f"{partition}/{BASE}.index: a Kafka .index file, ")
    assert f"last offset    {entries[-1]['offset']}\n" in text
    assert run("rebuild", partition, "-o", tmp_path / "out", "--key-index", "--no-sync").exit_code == 0
    (row,) = run_json("info", tmp_path / "out" / f"{BASE}.keyindex")
    assert (row["kind"], row["base_offset"], row["version"]) == ("key_index", 67, 2)


def test_entries_of_a_key_index(golden_log: Any, tmp_path: Path) -> None:
    partition = golden_log("tiny-broker") / "orders-0"
    assert run("rebuild", partition, "-o", tmp_path / "out", "--key-index", "--no-sync").exit_code == 0
    path = tmp_path / "out" / f"{BASE}.keyindex"
    entries = run_json("cat", path)
    records = [row for row in run_json("cat", partition / f"{BASE}.log") if row["key"] is not None]
    assert sorted(entry["offset"] for entry in entries) == [row["offset"] for row in records] != []
    keys, (header,) = {row["offset"]: row["key"] for row in records}, run_json("info", path)
    bits_by_key: dict[str, set[str]] = {}
    for entry in entries:
        bits_by_key.setdefault(keys[entry["offset"]], set()).add(entry["hash_bits"])
    assert all(len(bits) == 1 for bits in bits_by_key.values())
    assert len(bits_by_key) == header["key_count"] > 1
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    harmed = run("cat", path)
    assert (harmed.exit_code, harmed.stdout) == (1, ""), harmed


def test_checkpoints(golden_log: Any) -> None:
    root = golden_log("tiny-broker")
    before = tree_hash(root)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"):
        lines = [line.rsplit(" ", 2) for line in (root / name).read_text().splitlines()[2:]]
        expected = [{"topic": topic, "partition": int(n), "offset": int(at)} for topic, n, at in lines]
        assert run_json("cat", root / name) == expected
        (row,) = run_json("info", root / name)
        assert (row["kind"], row["entries"], row["problems"]) == ("checkpoint", len(expected), [])
    epochs = root / "orders-0" / "leader-epoch-checkpoint"
    pairs = [line.split() for line in epochs.read_text().splitlines()[2:]]
    assert run_json("cat", epochs) == [{"epoch": int(epoch), "start_offset": int(at)} for epoch, at in pairs] != []
    assert tree_hash(root) == before


@pytest.mark.parametrize(
    "words",
    [["get", "--offset", "0"], ["query", "--key", "k"], ["verify"], ["rebuild", "-o", "out"], ["cat", "--tail", "1"]],
)
def test_other_commands_say_what_a_checkpoint_is(words: list[str], golden_log: Any) -> None:
    path = golden_log("tiny-broker") / "orders-0" / "leader-epoch-checkpoint"
    refused = run(words[0], path, *words[1:])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "checkpoint" in refused.stderr
    assert len(refused.stderr.splitlines()) == 2


def test_a_damaged_index_is_told(golden_log: Any, tmp_path: Path) -> None:
    path = tmp_path / f"{BASE}.snapshot"
    path.write_bytes(b"\0\1\0\0\0\0" + b"x")
    told = run("cat", path)
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr.startswith(f"logdex: {path}: ")


def test_what_is_about_records_is_refused(golden_log: Any) -> None:
    path = golden_log("tiny-broker") / "orders-0" / f"{BASE}.index"
    for flags in (["--grep", "x"], ["--format", "%k"], ["--columns", "value"]):
        refused = run("cat", path, *flags)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "is about messages" in refused.stderr or "there is no field 'value'" in refused.stderr
