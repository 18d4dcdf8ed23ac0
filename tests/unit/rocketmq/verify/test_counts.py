"""What verify counts: findings alone, of the requested checks alone, and the report is sound only
without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.verify import VerifyReport, verify
from logdex.rocketmq.verify.queues import left_over
from tests.unit.rocketmq.verify.test_verify import SMALL, built, messages


def counted(report: VerifyReport) -> int:
    return len(report.findings) + report.truncated


def without_entries(root: Path) -> None:
    for path in (root / "consumequeue").glob("*/*/0*"):
        path.write_bytes(bytes(path.stat().st_size))


def test_messages_without_an_entry_yet_are_no_findings_however_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(left_over, "LEFT_OVER_MAX", 10)
    root = built(tmp_path, messages(60))
    without_entries(root)
    (root / "abort").write_bytes(b"1")
    report = verify(str(root), SMALL)
    assert (counted(report), report.is_sound) == (0, True)
    behind = [info.message for info in report.infos if info.kind == "consume-queue-behind"]
    assert behind[0].startswith("60 messages ")


def test_only_requested_checks_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_over, "LEFT_OVER_MAX", 10)
    root = built(tmp_path, messages(60))
    without_entries(root)
    assert counted(verify(str(root), SMALL)) == 60
    assert counted(verify(str(root), SMALL, max_findings=7)) == 60
    report = verify(str(root), SMALL, checks=["message-crc"])
    assert (counted(report), report.is_sound) == (0, True)
    assert counted(verify(str(root), SMALL, checks=["consume-queue-entry"])) == 60


def test_entries_without_a_message_are_counted_to_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = built(tmp_path, messages(60, queues=1))
    queue = root / "consumequeue" / "TopicA" / "0"
    first = sorted(queue.iterdir())[0].read_bytes()
    (queue / f"{1400:020d}").write_bytes(first)  # ten entries at queue offsets that the log does not have
    for most in (3, 100):
        monkeypatch.setattr(left_over, "LEFT_OVER_MAX", most)
        report = verify(str(root), SMALL, checks=["consume-queue-extra-entry"])
        assert counted(report) == 10


def test_repeated_index_entries_are_no_findings_however_many(tmp_path: Path) -> None:
    """The engine repeats entries where it dispatches a part of the log again."""
    rows = messages(30)
    root = built(tmp_path, rows, config=SMALL)
    last = sorted((root / "index").iterdir())[-1]
    with IndexFile(str(last), SMALL, writable=True) as index:
        entries = index.entries()
        for key_hash, offset in list(zip(entries.key_hash.tolist(), entries.phy_offset.tolist(), strict=True))[:15]:
            index.put_key(key_hash, offset, rows[0].store_timestamp_ms)
    report = verify(str(root), SMALL, max_findings=5, checks=["index-extra-entry", "message-keys"])
    assert [info.kind for info in report.infos if "index" in info.kind] == ["index-repeated-entries"]
    assert (counted(report), report.is_sound) == (0, True)


def test_findings_that_are_only_counted_make_a_store_unsound(tmp_path: Path) -> None:
    root = built(tmp_path, messages(60))
    without_entries(root)
    report = verify(str(root), SMALL, max_findings=0)
    assert (report.findings, report.truncated, report.is_sound) == ([], 60, False)
