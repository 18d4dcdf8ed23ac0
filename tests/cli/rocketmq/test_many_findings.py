"""Many findings are counted by check and file at the end of what `verify` prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.helpers import run, run_json
from tests.unit.rocketmq.small_stores import MESSAGES, build

FLAGS = (
    *("--mapped-file-size-commit-log", "2048", "--mapped-file-size-consume-queue", "320"),
    *("--max-hash-slot-num", "7", "--max-index-num", "12", "--rocketmq-version", "5.5.0"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "store", MESSAGES)


def put_others(root: Path, count: int) -> None:
    for number in range(count):
        (root / "commitlog" / f"other-{number:02d}").write_bytes(b"other")


def test_the_places_are_counted_the_most_first(root: Path) -> None:
    put_others(root, 22)
    queue = root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    entries = bytearray(queue.read_bytes())
    for number in (2, 3, 5):
        entries[20 * number + 11] ^= 1  # the size
    queue.write_bytes(entries)
    ended = run("verify", root, *FLAGS)
    assert ended.exit_code == 1
    lines = ended.stdout.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("25 findings in 40 messages"))
    assert lines[at + 1] == f"  3  consume-queue-size     {queue}"
    assert lines[at + 2] == f"  1  commit-log-other-file  {root}/commitlog/other-00"
    assert lines[at + 21 :] == ["  3 more in 3 places"]


def test_few_findings_are_not_counted_again(root: Path) -> None:
    put_others(root, 10)
    told = run("verify", root, *FLAGS).stdout
    assert told.splitlines()[-1].startswith("10 findings in 40 messages")
    put_others(root, 11)
    assert "  1  commit-log-other-file  " in run("verify", root, *FLAGS).stdout


def test_findings_that_are_only_counted_decide_the_exit_code(root: Path) -> None:
    assert run("verify", root, *FLAGS, "--max-findings", 0).exit_code == 0
    queue = root / "consumequeue" / "TopicA" / "0" / f"{0:020d}"
    queue.write_bytes(bytes(queue.stat().st_size))
    counted = run("verify", root, *FLAGS, "--max-findings", 0)
    assert (counted.exit_code, counted.stdout.count("mend:")) == (1, 0)
    assert "findings not shown" in counted.stdout
    others = run("verify", root, *FLAGS, "--max-findings", 0, "--check", "message-crc")
    assert (others.exit_code, others.stdout.splitlines()[-1].partition(" in ")[0]) == (0, "No findings")


def test_notes_of_one_kind_are_listed_up_to_five(root: Path) -> None:
    for number in range(12):
        (root / "consumequeue" / f"Gone{number:02d}" / "0").mkdir(parents=True)
        (root / "consumequeue" / f"Gone{number:02d}" / "0" / f"{0:020d}").write_bytes(bytes(320))
    told = run("verify", root, *FLAGS).stdout
    assert told.count("[queue-without-messages]") == 6
    assert "7 more notes [queue-without-messages]: --check queue-without-messages --json lists all" in told
    listed = run_json("verify", root, *FLAGS, "--check", "queue-without-messages")
    assert [line.get("kind") for line in listed] == ["queue-without-messages"] * 12 + [None]
