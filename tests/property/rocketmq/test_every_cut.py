"""A log cut at any byte: what is before is found by every way of reading, nothing else, and no
wrong answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import LogdexError
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.snapshot.overview import overview
from logdex.rocketmq.verify import verify
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, MESSAGES, build, opened


def whole_messages(root: Path) -> list[tuple[int, int, int]]:
    """(queue offset, physical offset, size) of the store's messages."""
    with opened(root) as store:
        return [(m.queue_offset, m.physical_offset, m.size_bytes) for m in store.scan()]


def check_cut(root: Path, file: Path, data: bytes, size: int, messages: list[tuple[int, int, int]], out: Path) -> None:
    file.write_bytes(data[:size])
    start = int(file.name)
    left = [queue_offset for queue_offset, offset, length in messages if offset + length <= start + size]
    scanner = Scanner(CONFIG)
    with opened(root) as store:
        found = [
            int(o) for window in scanner.scan(store.commit_log) for o in window.columns.queue_offset[: window.count]
        ]
        assert found == left
        assert [message.queue_offset for message in store.scan()] == left
        try:
            hot = store.query_message("TopicA", "hot", scan_missing=True)
        except LogdexError:
            pass  # typed and located: no answer is no wrong answer
        else:
            assert [message.queue_offset for message in hot.messages] == [n for n in reversed(left) if n % 2]
    report = rebuild(str(root), str(out), CONFIG, sync=False)
    assert (report.messages, report.queue_entries) == (len(left), len(left))
    verify(str(root), CONFIG)
    overview(str(root), CONFIG)


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=pytest.mark.slow)])
def test_every_cut_of_the_last_file(step: int, tmp_path: Path) -> None:
    root = build(tmp_path / "store", MESSAGES[:12])
    messages = whole_messages(root)
    file = max((root / "commitlog").iterdir())
    data = file.read_bytes()
    assert len(data) == FILE_SIZE
    for size in range(len(data), -1, -step):
        check_cut(root, file, data, size, messages, tmp_path / "out")
        for kept in (tmp_path / "out").glob("*.2*"):  # what an earlier round wrote, kept under a dated name
            _remove(kept)


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
