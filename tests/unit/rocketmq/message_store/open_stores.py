"""Small stores for the tests of `MessageStore`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 4096,
    "mapped_file_size_consume_queue": 200,
    "max_hash_slot_num": 53,
    "max_index_num": 60,
}
NOW_MS = 1_700_000_000_000


class Clock:
    """A clock that moves a few milliseconds per look."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        self.now_ms += 3
        return self.now_ms


def open_store(path: Path, **settings: Any) -> MessageStore:
    """A store with small files and no threads."""
    return MessageStore.open(path, **{"background": False, "clock_ms": Clock(), **SIZES, **settings})


def crash(store: MessageStore) -> None:
    """Ends a store as a killed process would: nothing more is written."""
    store._core.close_files()
    store._dispatch.close_files()
    store._close_index()
    store._core.process_lock.release()


def require_sound(path: Path, **sizes: int) -> None:
    """Requires that verify has no findings."""
    report = verify(str(path), StoreConfig(**{**SIZES, **sizes}))
    assert [str(finding) for finding in report.findings] == []
    assert report.is_sound
