"""A message whose properties a broker is still writing, which no checksum shows: it is scanned as
it is in the end, whenever its last bytes come."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.jobs import look_again
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing.store_builder import make_message, write_commit_log
from tests.plain_twins import plain_twins

CONFIG = replace(StoreConfig(), mapped_file_size_commit_log=1 << 16)
HIDDEN = 12
"""How many bytes of the last message are written late."""


class HalfWritten:
    """A log of three messages, the last of which lacks its last bytes until `finish`."""

    def __init__(self, root: Path) -> None:
        messages = [make_message(queue_offset=n, properties=[(b"KEYS", b"order-17")]) for n in range(3)]
        write_commit_log(str(root), messages, 1 << 16)
        (root / "abort").touch()
        self.path = root / "commitlog" / "00000000000000000000"
        self.whole = self.path.read_bytes()
        self.end = len(self.whole.rstrip(b"\0"))
        self._write(self.end - HIDDEN, bytes(HIDDEN))

    def finish(self, *_: object) -> None:
        self._write(self.end - HIDDEN, self.whole[self.end - HIDDEN : self.end])

    def _write(self, at: int, data: bytes) -> None:
        with self.path.open("r+b") as file:
            os.pwrite(file.fileno(), data, at)


def key_hashes(root: Path, scanner: Scanner) -> list[int]:
    """The index hash of each message's keys."""
    found: list[int] = []
    with CommitLog.of_store(str(root)) as log:
        for window in scanner.scan(log):
            found += window.columns.key_hash[: window.key_count].tolist()
    return found


def after(number: int, function: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    """Calls `then` after the call of `function` with this number, from 1 on."""
    calls = 0

    def called(*arguments: object) -> object:
        nonlocal calls
        result = function(*arguments)
        calls += 1
        if calls == number:
            then()
        return result

    return called


@pytest.mark.parametrize("is_plain", [False, True], ids=["kernel", "plain"])
def test_bytes_that_come_just_after_the_message_was_read(
    is_plain: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the last byte finds it written, but the kernel has read zeros before."""
    log, scanner = HalfWritten(tmp_path), Scanner(CONFIG)
    monkeypatch.setattr(scanner, "_fill", after(1, scanner._fill, log.finish))
    with plain_twins(is_plain):
        found = key_hashes(tmp_path, scanner)
    assert len(found) == 3
    assert len(set(found)) == 1


@pytest.mark.parametrize("look", [1, 3])
def test_bytes_that_come_while_the_reader_waits(look: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = HalfWritten(tmp_path)
    monkeypatch.setattr(look_again, "pause", after(look, look_again.pause, log.finish))
    found = key_hashes(tmp_path, Scanner(CONFIG))
    assert len(found) == 3
    assert len(set(found)) == 1


def test_each_scan_of_a_scanner_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scanner that follows a log for days does not come to an end of its looks."""
    HalfWritten(tmp_path)
    pauses: list[float] = []
    monkeypatch.setattr(look_again, "pause", pauses.append)
    scanner = Scanner(CONFIG)
    for _ in range(30):
        pauses.clear()
        assert len(key_hashes(tmp_path, scanner)) == 2
        assert pauses


def test_a_file_that_is_cut_while_its_last_message_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window ends before a message that a broker's recovery has overwritten meanwhile."""
    log, scanner = HalfWritten(tmp_path), Scanner(CONFIG)
    log.finish()
    begin = log.end // 3 * 2

    def wipe() -> None:
        log._write(begin, bytes(log.end - HIDDEN - begin))

    monkeypatch.setattr(scanner, "_fill", after(1, scanner._fill, wipe))
    assert len(key_hashes(tmp_path, scanner)) == 2
    assert scanner.end is not None
    assert scanner.end.offset == begin
