"""Bulk look-ups answer what single ones answer, on whole and on harmed files, and end on every
chain."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.layout.rocketmq import INDEX_HEADER
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.settings.store_config import StoreConfig

BEGIN_MS = 1_700_000_000_000
entries = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5000)), max_size=40)
times = st.one_of(st.integers(BEGIN_MS - 2000, BEGIN_MS + 7000), st.sampled_from([0, -(1 << 70), 1 << 70]))
numbers = st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-1, 45))
harms = st.lists(st.tuples(st.integers(0, 1 << 20), numbers), max_size=8)


def _file(folder: str, config: StoreConfig, rows: list[tuple[int, int]]) -> str:
    path = f"{folder}/20231114221320000"
    with IndexFile(path, config, writable=True) as file:
        hashes = np.array([key for key, _ in rows], np.int32)
        stored = BEGIN_MS + np.sort(np.array([late for _, late in rows], np.int64))
        assert file.put_keys(hashes, np.arange(len(rows), dtype=np.int64) * 7, stored) == len(rows)
    return path


def _harm(path: str, config: StoreConfig, harms: list[tuple[int, int]]) -> None:
    """Overwrites 4-byte fields of header, slots and entries."""
    data = bytearray(Path(path).read_bytes())
    for place, value in harms:
        at = place % ((len(data) - 4) // 4) * 4
        data[at : at + 4] = value.to_bytes(4, "big", signed=True)
    Path(path).write_bytes(data)


@settings(deadline=None)
@given(entries, st.integers(1, 5), harms, st.one_of(st.none(), st.integers(-1, 12)), times, times)
def test_bulk_look_ups_equal_single_ones(
    rows: list[tuple[int, int]], slots: int, harm: list[tuple[int, int]], max_num: int | None, begin: int, end: int
) -> None:
    config = StoreConfig(max_hash_slot_num=slots, max_index_num=42)
    wanted: npt.NDArray[np.int32] = np.array([0, 1, 2, 3, 9, 10, 2_147_483_647] * 20, np.int32)
    with tempfile.TemporaryDirectory() as folder:
        path = _file(folder, config, rows)
        _harm(path, config, harm)
        with IndexFile(path, config) as file:
            fast = file.select_many(wanted, max_num, begin, end)
            slow = file.select_many(wanted, max_num, begin, end, plain=True)
            assert [part.tolist() for part in fast] == [part.tolist() for part in slow]
            for i in range(7):
                assert fast.row(i) == file.select_phy_offset(int(wanted[i]), max_num, begin, end)
                assert len(fast.row(i)) <= config.max_index_num


@settings(deadline=None)
@given(entries, st.integers(0, 70), times, times)
def test_bulk_queries_over_rolled_files_equal_single_ones(
    rows: list[tuple[int, int]], max_num: int, begin: int, end: int
) -> None:
    config = StoreConfig(max_hash_slot_num=3, max_index_num=6)
    keys = [str(number) for number in range(10)]
    with tempfile.TemporaryDirectory() as folder:
        with IndexService(folder, config, writable=True) as service:
            stored = sorted(late for _, late in rows)
            for number, (key_number, _) in enumerate(rows):
                file = service._last_file(BEGIN_MS + stored[number])
                file.put_keys([f"orders#{key_number}"], np.array([number * 7]), np.array([BEGIN_MS + stored[number]]))
        with IndexService(folder, config) as service:
            many = service.query_offsets_many("orders", keys, max_num, begin, end)
            starts = [0, *many.row_ends.tolist()]
            for i, key in enumerate(keys):
                one = service.query_offset("orders", key, max_num, begin, end)
                assert many.phy_offsets[starts[i] : starts[i + 1]].tolist() == one.phy_offsets
                assert len(one.phy_offsets) <= 64
                last_update = (many.index_last_update_timestamp, many.index_last_update_phyoffset)
                assert last_update == (one.index_last_update_timestamp, one.index_last_update_phyoffset)


def test_every_answer_of_an_unharmed_file_is_found() -> None:
    config = StoreConfig(max_hash_slot_num=3, max_index_num=2000)
    hashes = np.arange(1500, dtype=np.int32) % 50
    with tempfile.TemporaryDirectory() as folder:
        with IndexFile(f"{folder}/f", config, writable=True) as file:
            file.put_keys(hashes, np.arange(1500, dtype=np.int64), np.full(1500, BEGIN_MS))
            assert file.header.entry_count == 1500
        assert Path(f"{folder}/f").stat().st_size == config.index_file_size_bytes > INDEX_HEADER.size_bytes
        with IndexFile(f"{folder}/f", config) as file:
            found = file.select_many(np.arange(51, dtype=np.int32))
            for key in range(50):
                assert found.row(key) == list(range(1450 + key, -1, -50))
            assert found.row(50) == []
            assert not len(found.damaged)
