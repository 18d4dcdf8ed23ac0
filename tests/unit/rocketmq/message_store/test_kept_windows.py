"""What the scan for the log's end keeps for the derivation changes nothing that is derived."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.rocketmq.message_store import kept_windows
from logdex.rocketmq.message_store.kept_windows import KeptWindows
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message
from logdex.rocketmq.scan.window import Window
from tests.unit.rocketmq.message_store.open_stores import crash, open_store, require_sound

LIGHT = {"INNER_MULTI_DISPATCH": "%LMQ%a,%LMQ%b", "INNER_MULTI_QUEUE_OFFSET": "0,0"}
KEPT = {"nothing": 0, "one file": 1, "some files": 2000, "everything": 1 << 20}


def fill(store: MessageStore, first: int, *, light: bool) -> None:
    for number in range(first, first + 60):
        keys, properties = f"k{number} l{number % 5}", {}
        if light and number == first + 50:
            properties = LIGHT
        store.put_message(Message("orders", b"x" * 90, tags="t", keys=keys, properties=properties, queue_id=number % 3))
    store.put_message(Message("late", b"x", delay_level=2))
    store.put_message(Message(f"new-{first}", b"x", keys="only"))


def derived(root: Path) -> dict[str, bytes]:
    paths = [path for name in ("consumequeue", "index") for path in sorted((root / name).rglob("*")) if path.is_file()]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


@pytest.mark.parametrize("light", [False, True], ids=["plain", "light queues"])
@pytest.mark.parametrize("flushed", [False, True], ids=["nothing flushed", "half flushed"])
def test_what_is_kept_changes_nothing(
    light: bool, flushed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    fill(store, 0, light=light)
    store.wait_dispatched()
    if flushed:
        store.flush()
    fill(store, 60, light=False)
    store.wait_dispatched()
    crash(store)
    found: list[dict[str, bytes]] = []
    ends: list[int] = []
    every = KeptWindows.__iter__

    def noted(kept: KeptWindows) -> Iterator[Window]:
        ends.append(kept.end)
        return every(kept)

    monkeypatch.setattr(KeptWindows, "__iter__", noted)
    for name, bytes_max in KEPT.items():
        copy = shutil.copytree(root, tmp_path / name)
        monkeypatch.setattr(kept_windows, "KEPT_BYTES_MAX", bytes_max)
        opened = open_store(copy)
        assert not opened.load_report.was_clean
        for number in range(120):
            assert len(opened.query_message("orders", f"k{number}").messages) == 1
        opened.close()
        found.append(derived(copy))
        require_sound(copy)
    assert found[1:] == found[:-1]
    assert sorted(set(ends)) == ends
    assert len(ends) == len(KEPT)
    assert ends[-1] > ends[0]
