"""IndexFile: what a look-up reads, what harmed links do, what a full disk does, and that reading
writes nothing."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

from logdex.errors import GeometryError, StorageError, TruncatedError, UsageError
from logdex.io.env import Env, WriteFile
from logdex.io.open_files import OPEN_FILES_MAX
from logdex.layout.rocketmq import INDEX_ENTRY, INDEX_HEADER, INDEX_SLOT
from logdex.rocketmq.index_file import writer
from logdex.rocketmq.index_file.index_chain import ChainEnd
from logdex.rocketmq.index_file.index_file import OWN_DESCRIPTORS_MAX, IndexFile, IndexHeader
from logdex.rocketmq.index_file.index_keys import KeyBatch, hash_keys
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.index_file.writer import IndexTarget
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.testing import FaultEnv

CONFIG = StoreConfig(max_hash_slot_num=4, max_index_num=10)
START_MS = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> str:
    """An IndexFile with the hashes 1, 5, 9 in slot 1 (entries 1, 2, 3) and 2 in slot 2 (entry 4), a
    second apart."""
    name = str(tmp_path / "20231114221320000")
    with IndexFile(name, CONFIG, writable=True) as file:
        for number, key_hash in enumerate([1, 5, 9, 2]):
            assert file.put_key(key_hash, 100 * number, START_MS + 1000 * number)
    return name


def _overwrite(path: str, position: int, data: bytes) -> None:
    with Path(path).open("r+b") as file:
        file.seek(position)
        file.write(data)


def _link(path: str, index: int, previous: int) -> None:
    at = 40 + 4 * CONFIG.max_hash_slot_num + 20 * index + INDEX_ENTRY.offset_of("previous_index")
    _overwrite(path, at, INDEX_SLOT.pack(previous))


def test_bytes_by_hand(path: str) -> None:
    data = Path(path).read_bytes()
    assert data[:40] == INDEX_HEADER.pack(START_MS, START_MS + 3000, 0, 300, 2, 5)
    assert data[40:56] == b"".join(INDEX_SLOT.pack(index) for index in (0, 3, 4, 0))
    assert data[56 + 60 : 56 + 80] == INDEX_ENTRY.pack(9, 200, 2, 2)
    assert len(data) == 40 + 4 * 4 + 20 * 10


def test_a_look_up_reads_its_slot_and_its_chain_alone(path: str) -> None:
    env = Env()
    with IndexFile(path, CONFIG, env=env) as file:
        assert env.counters.read_bytes == INDEX_HEADER.size_bytes
        for key_hash, offsets, entries in ((5, [100], 3), (2, [300], 1), (3, [], 0)):
            before = env.counters.read_bytes
            assert file.select_phy_offset(key_hash) == offsets
            assert env.counters.read_bytes - before == INDEX_SLOT.size_bytes + entries * INDEX_ENTRY.size_bytes
        before = env.counters.read_bytes
        assert file.select_phy_offset(9, max_num=1) == [200]
        assert env.counters.read_bytes - before == INDEX_SLOT.size_bytes + INDEX_ENTRY.size_bytes
        assert env.counters.written_bytes == env.counters.mapped_bytes == 0


def test_reading_changes_neither_bytes_nor_times(path: str) -> None:
    Path(path).chmod(0o444)
    before = (Path(path).read_bytes(), Path(path).stat().st_mtime_ns)
    with IndexFile(path, CONFIG) as file:
        file.select_many(np.array([1, 2], np.int32))
        with pytest.raises(UsageError, match="writable=True"):
            file.put_key("orders#a", 0, 0)
    with IndexService(str(Path(path).parent), CONFIG) as service:
        assert service.query_offset("orders", "a").index_last_update_phyoffset == 300
    assert (Path(path).read_bytes(), Path(path).stat().st_mtime_ns) == before


def test_of_many_files_few_are_open(path: str) -> None:
    folder, count = Path(path).parent, OWN_DESCRIPTORS_MAX + 2 * OPEN_FILES_MAX
    for number in range(1, count):
        shutil.copy(path, folder / f"{int(Path(path).name) + number}")
    env = FaultEnv(str(folder))
    with IndexService(str(folder), CONFIG, env=env) as service:
        assert len(service.files) == count
        assert [file.select_phy_offset(5) for file in service.files] == [[100]] * count
        assert service.query_offset("orders", "a").index_last_update_phyoffset == 300
        found = [file.select_many(np.array([5], np.int32)).row(0) for file in service.files]
        assert found == [[100]] * count
        service.reload()
        assert len(env.open_paths) <= OWN_DESCRIPTORS_MAX + OPEN_FILES_MAX
    assert env.open_paths == []


def test_times_are_compared_in_whole_seconds(path: str) -> None:
    with IndexFile(path, CONFIG) as file:
        assert file.select_phy_offset(5, begin_ms=START_MS + 1000, end_ms=START_MS + 1000) == [100]
        assert file.select_phy_offset(5, begin_ms=START_MS + 1001) == []
        assert file.select_phy_offset(5, end_ms=START_MS + 999) == []
        assert [
            file.is_time_matched(START_MS + begin, START_MS + end)
            for begin, end in ((-9, -1), (-9, 0), (-9, 9999), (5, 6), (3000, 9999), (3001, 9999))
        ] == [False, True, True, True, True, False]


@pytest.mark.parametrize(
    ("index", "previous", "indexes", "end"),
    [
        (1, 3, [3, 2, 1], ChainEnd.CYCLE),
        (2, 3, [3, 2], ChainEnd.CYCLE),
        (3, 3, [3], ChainEnd.ITSELF),
        (2, 4, [3, 2, 4], ChainEnd.FIRST),  # forward, no cycle: the engine goes on there
        (2, 6, [3, 2], ChainEnd.BEYOND_COUNT),
        (2, -7, [3, 2], ChainEnd.NEGATIVE),
        (3, 1, [3, 1], ChainEnd.FIRST),
    ],
)
def test_harmed_links_end(path: str, index: int, previous: int, indexes: list[int], end: ChainEnd) -> None:
    _link(path, index, previous)
    with IndexFile(path, CONFIG) as file:
        chain = file.chain(1)
        assert [at for at, _ in chain] == indexes
        assert chain.end is end
        forward = previous > index and end is not ChainEnd.BEYOND_COUNT
        assert chain.went_forward is forward
        found = file.select_many(np.array([1, 2], np.int32))
        assert found.row(0) == file.select_phy_offset(1) == [0] * (1 in indexes)
        assert found.damaged.tolist() == [0] * forward


def test_a_count_beyond_the_file_reads_nothing_behind_it(path: str) -> None:
    _overwrite(path, INDEX_HEADER.offset_of("index_count"), INDEX_SLOT.pack(1 << 30))
    _link(path, 3, 1 << 29)
    with IndexFile(path, CONFIG) as file:
        chain = file.chain(9)
        assert [at for at, _ in chain] == [3]
        assert chain.end is ChainEnd.BEYOND_FILE
        assert file.select_many(np.array([9], np.int32)).row(0) == [200]
        assert len(file.entries().key_hash) == CONFIG.max_index_num - 1


def test_another_geometry_is_refused_with_what_to_state(path: str) -> None:
    with pytest.raises(GeometryError, match=r"256 bytes; 4 hash slots and 11 entries take 276.*--max-index-num"):
        IndexFile(path, StoreConfig(max_hash_slot_num=4, max_index_num=11))
    with Path(path).open("r+b") as file:
        file.truncate(10)
    with pytest.raises(GeometryError, match="10 bytes"):
        IndexFile(path, CONFIG)
    with pytest.raises(TruncatedError, match="byte 10"):
        IndexHeader.unpack(b"0123456789", path=path)


def test_a_file_cut_while_open_is_a_located_error(path: str) -> None:
    with IndexFile(path, CONFIG) as file:
        with Path(path).open("r+b") as other:
            other.truncate(100)
        with pytest.raises(TruncatedError, match=r"byte 116: .*\[entry\]"):
            file.select_phy_offset(1)
        with pytest.raises(GeometryError, match="100 bytes"):
            file.select_many(np.array([1], np.int32))


def test_columns(path: str) -> None:
    with IndexFile(path, CONFIG) as file:
        assert [column.tolist() for column in file.entries()] == [
            [1, 5, 9, 2],
            [0, 100, 200, 300],
            [0, 1, 2, 3],
            [0, 1, 2, 0],
        ]
        assert file.entries(2, 2).phy_offset.tolist() == [100, 200]
        assert file.entries(9, 2).phy_offset.tolist() == []
        assert file.slots().tolist() == [0, 3, 4, 0]
        assert file.slots(1, 2).tolist() == [3, 4]


def test_putting_goes_on_where_the_file_ended_and_stops_when_full(path: str) -> None:
    with IndexFile(path, CONFIG, writable=True) as file:
        assert file.put_keys([f"orders#{i}" for i in range(9)], np.arange(9), np.full(9, START_MS)) == 5
        assert file.is_write_full
        assert not file.put_key("orders#late", 0, START_MS)
        assert file.put_keys(["orders#late"], np.zeros(1, np.int64), np.zeros(1, np.int64)) == 0
    with IndexFile(path, CONFIG) as file:
        assert file.header.index_count == 10
        assert file.select_phy_offset("orders#4") == [4]
        assert file.select_phy_offset("orders#5") == []


@pytest.mark.parametrize(("version", "count"), [("4.9.7", 0), ("5.5.0", 1)])
def test_a_file_without_entries(tmp_path: Path, version: str, count: int) -> None:
    config = StoreConfig(max_hash_slot_num=4, max_index_num=10, dialect=Dialect.of(version))
    with IndexFile(str(tmp_path / "f"), config, writable=True, previous=(77, 88)):
        pass
    assert (tmp_path / "f").read_bytes()[:40] == INDEX_HEADER.pack(77, 77, 88, 88, 0, count)
    with IndexFile(str(tmp_path / "f"), config) as file:
        assert file.header.entry_count == 0
        assert file.select_phy_offset(1) == []


def test_a_full_disk_is_a_typed_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = StoreConfig(max_hash_slot_num=4, max_index_num=1000)
    monkeypatch.setattr(writer, "RESERVE_SIZE_BYTES", 2000)
    claimed: list[tuple[int, int]] = []

    def reserve(file: WriteFile, position: int, size_bytes: int) -> None:
        claimed.append((position, size_bytes))
        if position >= 6000:
            raise StorageError("no space left on device", path=file.path, errno=errno.ENOSPC)

    monkeypatch.setattr(WriteFile, "reserve", reserve)
    target = IndexTarget(str(tmp_path / "f"), config)
    assert claimed == [(0, 56)]
    count = 1
    for _ in range(2):
        count = target.reserve(count)
    assert count == 201
    assert target.reserve(count - 1) == count  # room for one more: nothing to claim
    count = target.reserve(count)
    with pytest.raises(StorageError, match="no space left"):
        target.reserve(count)
    target.close()
    ends = [position + size for position, size in claimed]
    assert [position for position, _ in claimed] == [0, *ends[:-1]]  # no gap that a store could fall into
    assert 56 + 20 * count <= 6100


def test_wrong_arguments_are_named(path: str) -> None:
    with IndexFile(path, CONFIG, writable=True) as file:
        with pytest.raises(UsageError, match="1 keys, 2 offsets and 1 times"):
            file.put_keys(["a"], np.zeros(2, np.int64), np.zeros(1, np.int64))
        with pytest.raises(UsageError, match="0 to 2"):
            file.put_keys(np.array([-1], np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))
        with pytest.raises(UsageError, match="0 to 2"):
            file.select_many(np.array([-1], np.int32))
    with pytest.raises(ValueError, match="key ends must increase"):
        hash_keys(KeyBatch(np.zeros(3, np.uint8), np.array([2, 1])))
    with pytest.raises(ValueError, match="key ends must increase"):
        hash_keys(KeyBatch(np.zeros(3, np.uint8), np.array([2, 4])))
