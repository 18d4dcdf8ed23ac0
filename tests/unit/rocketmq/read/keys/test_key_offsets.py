"""A key's entries are read lazily, newest first, and a page goes on where the one before it
ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from logdex.errors import LogdexError
from logdex.io.env import Env
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.read.keys.key_offsets import index_offsets
from logdex.rocketmq.read.keys.key_question import TIME_MAX_MS, KeyQuestion
from logdex.rocketmq.settings.store_config import StoreConfig

CONFIG = StoreConfig(max_hash_slot_num=97, max_index_num=200_000)
HOT = KeyQuestion(topic=b"T", key=b"hot")
START_MS = 1_700_000_000_000


def put(path: Path, hashes: np.ndarray, offsets: np.ndarray) -> None:
    with IndexFile(str(path), CONFIG, writable=True) as file:
        assert file.put_keys(hashes.astype(np.int32), offsets, START_MS + offsets) == len(hashes)


@pytest.fixture
def env() -> Env:
    return Env()


class Index:
    """IndexFiles of a folder, as a query reads them."""

    def __init__(self, folder: Path, env: Env) -> None:
        self.files = [IndexFile(str(path), CONFIG, env=env) for path in sorted(folder.iterdir())]
        self.problems: list[LogdexError] = []

    def walk(self, below: int = TIME_MAX_MS, question: KeyQuestion = HOT) -> Iterator[int]:
        return index_offsets(self.files, lambda _: False, question, below, self.problems)

    def __enter__(self) -> Index:
        self._stack = ExitStack()
        for file in self.files:
            self._stack.push(file)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@pytest.fixture
def hot(tmp_path: Path) -> tuple[Path, list[int]]:
    """Two files, in which every third entry is of one key; its offsets, descending."""
    (tmp_path / "index").mkdir()
    random = np.random.default_rng(1)
    wanted: list[int] = []
    for number in range(2):
        offsets = np.arange(60_000, dtype=np.int64) * 100 + number * 6_000_000
        is_hot = random.random(60_000) < 0.3
        hashes = np.where(is_hot, HOT.key_hash(), random.integers(0, 1 << 31, 60_000))
        put(tmp_path / "index" / f"2023111422132012{number}", hashes, offsets)
        wanted += offsets[is_hot].tolist()
    return tmp_path / "index", wanted[::-1]


def test_all_entries_are_found_newest_first(hot: tuple[Path, list[int]], env: Env) -> None:
    folder, wanted = hot
    with Index(folder, env) as index:
        assert list(index.walk()) == wanted
        assert index.problems == []
        assert env.counters.read_bytes < 2 * 20 * 60_000 * 2  # dense chains are read in blocks


def test_a_page_reads_its_own_entries_alone(hot: tuple[Path, list[int]], env: Env) -> None:
    folder, wanted = hot
    with Index(folder, env) as index:
        for start in (0, 10, 9_000, len(wanted) - 15):
            below = TIME_MAX_MS if start == 0 else wanted[start - 1]
            before = env.counters.read_bytes
            assert list(islice(index.walk(below), 10)) == wanted[start : start + 10]
            assert env.counters.read_bytes - before < 4_000


def test_a_page_may_begin_anywhere(hot: tuple[Path, list[int]], env: Env) -> None:
    folder, wanted = hot
    with Index(folder, env) as index:
        for below in (0, 1, 50, 199_950, 5_999_950, 6_000_000, 8_888_801, 12_000_000):
            expected = [offset for offset in wanted if offset < below][:50]
            assert list(islice(index.walk(below), 50)) == expected
        rare = KeyQuestion(topic=b"T", key=b"none")
        for below in (1_000, 7_000_000, TIME_MAX_MS):
            assert list(index.walk(below, rare)) == []


def test_files_that_overlap_are_merged(tmp_path: Path, env: Env) -> None:
    """As a broker's file and a rebuilt one beside it."""
    hashes = np.full(1_000, HOT.key_hash())
    for number, first in enumerate((0, 500, 20_000)):
        put(tmp_path / f"2023111422132012{number}", hashes, np.arange(1_000, dtype=np.int64) * 7 + first)
    wanted = sorted({at * 7 + first for first in (0, 500, 20_000) for at in range(1_000)}, reverse=True)
    with Index(tmp_path, env) as index:
        found = list(index.walk())
        assert found == sorted(found, reverse=True)
        assert sorted(set(found), reverse=True) == wanted


def test_entries_out_of_order_are_told_and_given(tmp_path: Path, env: Env) -> None:
    offsets = np.array([10, 20, 90, 30, 40], np.int64)
    put(tmp_path / "20231114221320120", np.full(5, HOT.key_hash()), offsets)
    with Index(tmp_path, env) as index:
        assert sorted(index.walk()) == [10, 20, 30, 40, 90]
        assert len(index.problems) == 1
