"""logdex rebuild of Kafka paths: the real recovery's bytes, the report, where it may write, and how
it ends."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli.helpers import run, run_json
from tests.conformance.kafka.test_rebuild import expected_files
from tests.directories import digests, tree_hash
from tests.golden import kafka as golden_kafka
from tests.unit.io.locks import held_elsewhere

REPORT_FIELDS = {"engine", "tasks", "messages", "bytes", "files", "seconds", "lossy"}
INTERVAL = ("--index-interval-bytes", 256)


def first_partition(store: Path, segments: int = 1) -> Path:
    return next(path for path in sorted(store.glob("*-*")) if len(list(path.glob("*.log"))) >= segments)


def flip(log: Path, position: int) -> None:
    with log.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def test_a_log_directory(golden_log: Any, tmp_path: Path) -> None:
    store = golden_log("tiny-broker")
    before = tree_hash(store)
    (report,) = run_json("rebuild", store, "--output", tmp_path / "out", *INTERVAL)
    assert digests(tmp_path / "out") == expected_files("tiny-broker")
    assert report.keys() >= REPORT_FIELDS
    assert (report["engine"], report["tasks"], report["lossy"], report["assumed"]) == ("local", 1, False, [])
    assert report["files"] == len(expected_files("tiny-broker"))
    records = [line for line in golden_kafka.records("tiny-broker") if line["kind"] == "record"]
    assert report["messages"] == len(records)
    assert tree_hash(store) == before


def test_text_report_says_what_was_inferred_and_assumed(golden_log: Any, tmp_path: Path) -> None:
    result = run("rebuild", golden_log("tiny-broker"), "-o", tmp_path / "out", "--key-index")
    assert result.exit_code == 0
    assert ".timeindex" in result.stdout
    assert ".keyindex" in result.stdout
    assert result.stderr.splitlines() == [
        "logdex: inferred index.interval.bytes 256 of audit.log-0 and 2 more: 244 to 261 fit the indexes",
        "logdex: assumed index.interval.bytes 4096 of __consumer_offsets-0 and 5 more",
    ]


def test_a_second_run_keeps_the_first_output(golden_log: Any, tmp_path: Path) -> None:
    store = golden_log("tiny-broker")
    partition = first_partition(store)
    for path, names in ((store, 1), (partition, 3)):
        out = tmp_path / path.name
        run_json("rebuild", path, "-o", out, *INTERVAL)
        first = digests(out)
        (report,) = run_json("rebuild", path, "-o", out, *INTERVAL)
        assert len(report["kept"]) >= names
        assert all(Path(where).exists() for where in report["kept"].values())
        found = digests(out)
        assert {name: found[name] for name in first} == first
        assert len(found) == 2 * len(first)


@pytest.mark.parametrize("of", ["log directory", "partition", "segment"])
def test_in_place(of: str, golden_log_copy: Any) -> None:
    store = golden_log_copy("tiny-broker")
    partition = first_partition(store)
    log = sorted(partition.glob("*.log"))[0]
    wanted = expected_files("tiny-broker")
    path = {"log directory": store, "partition": partition, "segment": log}[of]
    stale = partition / f"{12345678:020d}.snapshot"
    stale.write_bytes(b"stale")
    index = log.with_suffix(".index")
    index.write_bytes(b"harmed!!")
    logs = {file: file.read_bytes() for file in store.rglob("*.log")}
    result = run("rebuild", path, "--in-place", *INTERVAL)
    assert result.exit_code == 0
    assert "kept under a dated name" in result.stderr
    assert "is now" in result.stdout
    found = digests(store)
    mine = [name for name in wanted if of == "log directory" or name.startswith(f"{partition.name}/")]
    if of == "segment":
        mine = [f"{partition.name}/{log.stem}{suffix}" for suffix in (".index", ".timeindex")]
    assert {name: found[name] for name in mine} == {name: wanted[name] for name in mine}
    assert [kept.read_bytes() for kept in partition.glob(f"{index.name}.*")] == [b"harmed!!"]
    assert stale.exists() == (of == "segment")
    assert {file: file.read_bytes() for file in store.rglob("*.log")} == logs
    assert list(store.rglob(".logdex*")) == []


def test_in_place_is_refused_while_a_broker_holds_the_lock(golden_log_copy: Any) -> None:
    store = golden_log_copy("tiny-broker")
    (store / ".lock").touch()
    before = tree_hash(store)
    with held_elsewhere(store / ".lock"):
        for path in (store, first_partition(store)):
            result = run("rebuild", path, "--in-place")
            assert result.exit_code == 2
            assert "another process holds the lock" in result.stderr
    assert tree_hash(store) == before
    assert run("rebuild", store, "--in-place").exit_code == 0


def test_what_is_kept_is_nothing_foreign(golden_log_copy: Any) -> None:
    store = golden_log_copy("tiny-broker")
    kinds = [line.get("kind") for line in run_json("verify", store)]
    for _ in range(2):
        assert run("rebuild", store, "--in-place", *INTERVAL).exit_code == 0
    (store / "notes.txt").touch()
    assert "foreign-file" not in kinds
    assert [line.get("kind") for line in run_json("verify", store)].count("foreign-file") == 1


def test_a_damaged_segment_and_those_behind_it(golden_log_copy: Any, tmp_path: Path) -> None:
    store = golden_log_copy("tiny-broker")
    whole = expected_files("tiny-broker")
    partition = first_partition(store, segments=3)
    logs = sorted(partition.glob("*.log"))
    flip(logs[1], logs[1].stat().st_size // 2)
    (report,) = run_json("rebuild", store, "-o", tmp_path / "out", *INTERVAL, exit_code=3)
    assert report["lossy"] is True
    assert [str(logs[1]) in loss for loss in report["losses"]] == [True, False]
    assert f"{logs[2]}: this segment comes after a damaged one" in report["losses"][1]
    found = digests(tmp_path / "out")
    behind = [log.stem for log in logs[2:]]
    for name, digest in whole.items():
        folder, file = name.split("/")
        stem = file.partition(".")[0]
        if folder != partition.name or stem == logs[0].stem:
            assert found[name] == digest  # other partitions and what is before the damage
        elif stem in behind:
            assert (found.get(name) == digest) == file.endswith((".index", ".timeindex")), name
    text = run("rebuild", store, "-o", tmp_path / "text", *INTERVAL)
    assert text.exit_code == 3
    assert "are in no index" in text.stderr
    assert "logdex recover" in text.stderr
    # in place, what is there of producers and epochs stays
    before = digests(store)
    assert run("rebuild", store, "--in-place", *INTERVAL).exit_code == 3
    after = digests(store)
    for name, digest in before.items():
        if name.startswith(f"{partition.name}/") and name.endswith((".snapshot", ".txnindex", "checkpoint")):
            assert after[name] == digest
    flip(logs[0], logs[0].stat().st_size // 2)
    text = run("rebuild", store, "-o", tmp_path / "more", *INTERVAL)
    assert f"{logs[1]}: this and 1 more segment come after a damaged one" in text.stderr


def test_a_torn_tail_is_lossy_and_zeros_are_not(golden_log_copy: Any, tmp_path: Path) -> None:
    store = golden_log_copy("tiny-broker")
    partition = first_partition(store)
    log = sorted(partition.glob("*.log"))[-1]
    whole = log.read_bytes()
    log.write_bytes(whole + bytes(100))
    (report,) = run_json("rebuild", partition, "-o", tmp_path / "zeros", *INTERVAL)
    assert "nothing but zeros" in report["notes"][0]
    assert "100 bytes" in report["notes"][0]
    log.write_bytes(whole + whole[:40])
    (report,) = run_json("rebuild", partition, "-o", tmp_path / "torn", *INTERVAL, exit_code=3)
    assert "40 bytes" in report["losses"][0]
    assert digests(tmp_path / "torn") == digests(tmp_path / "zeros")


@pytest.mark.parametrize(
    ("path", "more", "words"),
    [
        ("", [], "where to?"),
        ("", ["--in-place", "--output", "x"], "exclude each other"),
        ("", ["--output", "{store}"], "lies in"),
        ("", ["--output", "{store}/rebuilt"], "lies in"),
        ("{partition}", ["--output", "{store}/rebuilt"], "lies in"),
        ("{partition}", ["--output", "{store}/{partition}/x"], "lies in"),
        ("", ["--output", "{other}"], "is a log directory"),
        ("{partition}", ["--output", "{other}/{partition}"], "holds a log of its own"),
        ("", ["--output", "x", "--index-interval-bytes", "-1"], "index_interval_bytes"),
        ("", ["--output", "x", "--max-index-num", "7"], "RocketMQ"),
        ("meta.properties", ["--output", "x"], "a file, not"),
        ("{partition}/{index}", ["--output", "x"], "a .index file"),
    ],
)
def test_what_cannot_be_is_refused(
    path: str, more: list[str], words: str, golden_log_copy: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store, other = golden_log_copy("tiny-broker"), tmp_path / "other"
    shutil.copytree(store, other)
    if "{other}/{partition}" in more:
        for name in ("meta.properties", "recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
            (other / name).unlink(missing_ok=True)
    partition = first_partition(store)
    names = {"store": store, "other": other, "partition": partition.name, "index": f"{0:020d}.index"}
    before = tree_hash(store), tree_hash(other)
    result = run("rebuild", store / path.format(**names), *(argument.format(**names) for argument in more))
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr
    assert len(result.stderr.splitlines()) <= 2
    assert (tree_hash(store), tree_hash(other)) == before
    assert list(tmp_path.glob("x/*")) == []


def test_the_key_index_flag_is_kafkas(golden_store: Any, tmp_path: Path) -> None:
    result = run("rebuild", golden_store("tiny-5.5.0"), "-o", tmp_path / "out", "--key-index")
    assert result.exit_code == 2
    assert "--key-index is a flag of Kafka's" in result.stderr
