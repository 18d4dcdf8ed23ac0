"""`logdex recover` and `logdex verify` of Kafka paths on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.helpers import run, run_json
from tests.directories import tree_hash
from tests.golden import kafka as golden_kafka


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    return golden_kafka.unpack("tiny-crash", tmp_path / "logs")


def test_a_crashed_directory_is_verified_recovered_and_verified(crashed: Path, tmp_path: Path) -> None:
    before = tree_hash(crashed)
    found = run("verify", crashed)
    assert found.exit_code == 1
    for check in ("torn-tail", "zero-tail", "batch-crc"):
        assert f"[{check}]" in found.stdout
    assert f"mend: logdex recover {crashed} --output DIR" in found.stdout
    output = tmp_path / "out"
    done = run("recover", crashed, "--output", output)
    assert done.exit_code == 3
    assert "Recovered 230 messages" in done.stdout
    assert "offsets 39 to 39 are lost" in done.stdout
    assert run("verify", output).exit_code == 0
    assert tree_hash(crashed) == before


def test_json_ends_with_one_report(crashed: Path, tmp_path: Path) -> None:
    *lines, report = run_json("verify", crashed, exit_code=1)
    assert {line["check"] for line in lines if "check" in line} == {"torn-tail", "zero-tail", "batch-crc"}
    assert (report["engine"], report["tasks"], report["messages"], report["findings"]) == ("local", 1, 230, 3)
    *skipped, report = run_json("recover", crashed, "--output", tmp_path / "out", exit_code=3)
    assert {line["kind"] for line in skipped} == {"skipped"}
    assert (report["messages"], report["lossy"], report["skipped_bytes"]) == (230, True, 127 + 171)
    assert report["bytes"] == sum(path.stat().st_size for path in crashed.rglob("*.log"))


def test_only_the_checks_that_are_asked_for(crashed: Path) -> None:
    *lines, report = run_json("verify", crashed, "--check", "zero-tail", exit_code=1)
    assert [line["check"] for line in lines if "check" in line] == ["zero-tail"]
    assert report["findings"] == 1
    assert run_json("verify", crashed, "--check", "key-index")[-1]["findings"] == 0
    refused = run("verify", crashed, "--check", "message-crc")
    assert refused.exit_code == 2
    assert "batch-crc" in refused.stdout + refused.stderr


def test_nothing_lost_is_exit_0(tmp_path: Path) -> None:
    root = golden_kafka.unpack("tiny-broker", tmp_path / "logs")
    done = run("recover", root / "orders-0", "-o", tmp_path / "out")
    assert done.exit_code == 0, done
    assert "lost        nothing" in done.stdout
    assert sorted(path.name for path in (tmp_path / "out").glob("*.log")) == sorted(
        path.name for path in (root / "orders-0").glob("*.log")
    )


@pytest.mark.parametrize("what", ["", "events-2", f"events-2/{27:020d}.log"])
def test_in_place(what: str, crashed: Path) -> None:
    done = run("recover", crashed / what, "--in-place")
    assert done.exit_code == 3, done
    assert "is now" in done.stdout
    checked = run("verify", crashed / what)
    assert (checked.exit_code, "foreign-file" in checked.stdout) == (0, False)
    again = run("recover", crashed / what, "--in-place")
    assert again.exit_code == 0, again


def test_what_cannot_be(crashed: Path, tmp_path: Path) -> None:
    assert run("recover", crashed).exit_code == 2
    assert "--output DIR, or --in-place" in run("recover", crashed).stderr
    assert run("recover", crashed, "--output", tmp_path / "o", "--in-place").exit_code == 2
    assert run("recover", crashed, "--output", crashed / "o").exit_code == 2
    assert not (tmp_path / "o").exists()


def test_an_open_transaction_is_told_under_the_partitions_name(crashed: Path, tmp_path: Path) -> None:
    whole = run("recover", crashed, "--output", tmp_path / "whole")
    alone = run("recover", crashed / "events-1", "--output", tmp_path / "alone")
    for done in (whole, alone):
        assert "\nlogdex: events-1: producer 1's transaction from offset 92 on has no end" in "\n" + done.stderr
