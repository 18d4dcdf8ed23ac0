"""The overview tells of a missing end of the log behind a torn message."""

from __future__ import annotations

from pathlib import Path

from logdex.rocketmq.recognise.lost_end import RESTORE_LAST_FILE
from logdex.rocketmq.snapshot.overview import overview
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build


def test_only_what_lies_behind_all_files_is_told_again(tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES)
    *_, torn, last = sorted((root / "commitlog").iterdir())
    last.rename(tmp_path / "last")
    torn.write_bytes(torn.read_bytes()[: -FILE_SIZE // 4].ljust(FILE_SIZE, b"\0"))
    look = overview(str(root), CONFIG)
    assert look.log.end == "torn"
    by_index, by_queue = look.problems
    assert by_index.endswith(RESTORE_LAST_FILE)
    assert by_queue.endswith(RESTORE_LAST_FILE)
    (tmp_path / "last").rename(last)
    assert overview(str(root), CONFIG).problems == []
    last.unlink()
    (root / "abort").write_text("1")
    assert overview(str(root), CONFIG).problems == []
