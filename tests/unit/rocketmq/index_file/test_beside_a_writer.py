"""Readers of an IndexFile beside the one who writes it."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.settings.store_config import StoreConfig

OLD, WINDOWS, WINDOW = 64, 40, 20_000
CONFIG = StoreConfig(max_hash_slot_num=OLD, max_index_num=OLD + WINDOWS * WINDOW + 2)
START_MS = 1_700_000_000_000


def test_old_keys_are_found_while_new_ones_are_added(tmp_path: Path) -> None:
    """Every slot leads to newer and newer entries; the chain behind each is whole at any moment."""
    path = str(tmp_path / "20231114221320000")
    times = np.full(WINDOW, START_MS)
    ended = threading.Event()

    with IndexFile(path, CONFIG, writable=True) as file:
        file.put_keys(np.arange(OLD, dtype=np.int32), np.arange(OLD), times[:OLD])

        def write() -> None:
            for number in range(WINDOWS):
                first = OLD + number * WINDOW
                offsets = np.arange(first, first + WINDOW)
                file.put_keys(offsets.astype(np.int32), offsets, times)
            ended.set()

        thread = threading.Thread(target=write)
        thread.start()
        seen = 0
        while not ended.is_set() or not seen:
            with IndexFile(path, CONFIG) as reader:
                for slot in range(OLD):
                    newest = reader.read_slot(slot)
                    entry = reader.read_entry(newest)
                    assert entry.key_hash % OLD == slot, (slot, newest, entry)
                    assert entry.phy_offset == entry.key_hash, (slot, newest, entry)
                    seen += newest > OLD
        thread.join()
    assert seen
