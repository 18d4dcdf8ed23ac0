"""What a command has read is freed when it ends, not when Python collects cycles of references."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from logdex.rocketmq.scan.scanner import Scanner
from tests.cli.harm import harmed
from tests.cli.rocketmq.harm import COMMANDS, Store, run_on, unpack


@pytest.mark.parametrize("cut", [0, 3])
def test_no_scan_is_left(cut: int, tmp_path: Path) -> None:
    store = unpack("tiny-usual", tmp_path)
    path = max((store.root / "commitlog").iterdir())
    data = path.read_bytes()
    with harmed(path, data[: len(data) // cut if cut else None]):
        assert_none_is_left(store)


def test_no_scan_is_left_where_the_topics_are_damaged(tmp_path: Path) -> None:
    store = unpack("tiny-usual", tmp_path)
    with harmed(store.root / "config" / "topics.json", b"{"):
        assert_none_is_left(store)


def assert_none_is_left(store: Store) -> None:
    for command in COMMANDS:
        gc.collect()
        of_others = scanners()  # a test that failed, or tries examples, may still hold one
        gc.disable()
        try:
            run_on(store, command)
            left = [each for each in scanners() if all(each is not other for other in of_others)]
        finally:
            gc.enable()
        assert not left, command


def scanners() -> list[Scanner]:
    return [each for each in gc.get_objects() if isinstance(each, Scanner)]
