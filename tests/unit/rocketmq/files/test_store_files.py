from __future__ import annotations

from pathlib import Path

import pytest

from logdex.errors import StorageError, TruncatedError, UnsupportedLayoutError
from logdex.io.path_look import PathLook
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.store_files import StoreFiles
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.recognise.layout_check import require_supported_layout
from logdex.rocketmq.settings.store_config import StoreConfig


def test_checkpoint_both_ways(tmp_path: Path) -> None:
    checkpoint = StoreCheckpoint(1, 2, 3, 4, 5, 6)
    path = tmp_path / "checkpoint"
    path.write_bytes(checkpoint.pack())
    assert path.stat().st_size == 4096
    assert StoreCheckpoint.read(str(path)) == checkpoint
    path.write_bytes(checkpoint.pack()[:47])
    with pytest.raises(TruncatedError) as caught:
        StoreCheckpoint.read(str(path))
    assert caught.value.position == 47
    path.write_bytes(bytes(2 << 20))
    with pytest.raises(StorageError):
        StoreCheckpoint.read(str(path))


def test_checkpoint_minimum_and_problems() -> None:
    assert StoreCheckpoint(9_000, 8_000).min_timestamp_ms == 5_000
    assert StoreCheckpoint(9_000, 2_000).min_timestamp_ms == 0
    good = StoreCheckpoint(100, 90, 80, 999, 50, 50)
    assert good.problems(last_store_timestamp_ms=100, log_end_offset=50) == []
    bad = StoreCheckpoint(101, -1, 80, -7, 51, 50)
    found = [(name, value) for name, _, value in bad.problems(last_store_timestamp_ms=100, log_end_offset=50)]
    assert found == [
        ("physic_msg_timestamp_ms", 101),
        ("logics_msg_timestamp_ms", -1),
        ("master_flushed_offset", -7),
        ("confirm_phy_offset", 51),
    ]


def test_small_files(tmp_path: Path) -> None:
    assert not StoreFiles.read(str(tmp_path)).is_unclean
    (tmp_path / "abort").write_bytes(b"")
    (tmp_path / "lock").write_text("lock")
    files = StoreFiles.read(str(tmp_path))
    assert (files.is_unclean, files.process_id, files.has_lock, files.has_abort_bak) == (True, None, True, False)
    (tmp_path / "abort").write_bytes(b"4711")
    assert StoreFiles.read(str(tmp_path)).process_id == 4711
    (tmp_path / "abort").write_bytes(b"\xff\n")
    assert StoreFiles.read(str(tmp_path)).process_id is None


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("dledger-n0/data/00000000000000000000", "DLedger"),
        ("consumequeue_r/CURRENT", "RocksDB"),
        ("batchconsumequeue/T/0/00000000000000000000", "batch"),
        ("commitlog,other/00000000000000000000", "several store paths"),
        ("rocksdbstore/000007.sst", "RocksDB"),
    ],
)
def test_layouts_that_are_refused_by_name(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file.split("/")[0]).mkdir()
    require_supported_layout(PathLook(tmp_path))
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_bytes(b"x")
    with pytest.raises(UnsupportedLayoutError, match=name):
        require_supported_layout(PathLook(tmp_path))


def test_queues_that_are_a_rocksdb_and_several_paths(tmp_path: Path) -> None:
    (tmp_path / "consumequeue").mkdir()
    for name in ("rocksdbstore", "consumequeue"):
        (tmp_path / name).mkdir(exist_ok=True)
    (tmp_path / "rocksdbstore" / "000007.sst").write_bytes(b"x")
    (tmp_path / "rocksdbstore" / "CURRENT").write_bytes(b"x")
    require_supported_layout(PathLook(tmp_path))
    for name in ("CURRENT", "MANIFEST-000005"):
        (tmp_path / "consumequeue" / name).write_bytes(b"x")
    with pytest.raises(UnsupportedLayoutError, match="RocksDB"):
        require_supported_layout(PathLook(tmp_path))


@pytest.mark.parametrize(
    ("line", "name"), [("enableDLegerCommitLog = true", "DLedger"), ("storeType: defaultRocksDB", "RocksDB")]
)
def test_properties_of_a_broker_that_are_refused(tmp_path: Path, line: str, name: str) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("storePathRootDir=/one\nenableDLegerCommitLog=false\nstoreType=default\n")
    assert resolve_config(str(tmp_path), broker_conf=str(conf)) == StoreConfig()
    conf.write_text(line)
    with pytest.raises(UnsupportedLayoutError, match=name):
        resolve_config(str(tmp_path), broker_conf=str(conf))
