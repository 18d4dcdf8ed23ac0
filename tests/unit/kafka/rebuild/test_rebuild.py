"""Rebuilds of logs that no golden directory has: offsets that cannot be, producers that cannot be,
odd directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from logdex.errors import NotAStoreError, UsageError
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.tasks import LocalRunner
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import encode_batch
from logdex.kafka.key_index import KeyIndex
from logdex.kafka.rebuild import rebuild, rebuild_on, rebuild_settings
from logdex.kafka.state.leader_epochs import LeaderEpochs
from logdex.kafka.state.producer_snapshot import load_producer_snapshot
from tests.directories import contents

RECORDS = [Record(key=b"key", value=b"value", timestamp_ms=1_700_000_000_000)] * 2


def batch(offset: int, *, producer_id: int = -1, transactional: bool = False, epoch: int = 0) -> bytes:
    sequence = -1 if producer_id < 0 else offset
    return encode_batch(
        RECORDS,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
        is_transactional=transactional,
        leader_epoch=epoch,
    )


def put(partition: Path, base: int, *batches: bytes) -> Path:
    partition.mkdir(parents=True, exist_ok=True)
    path = partition / f"{base:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def names(folder: Path) -> set[str]:
    return {path.name.lstrip("0") for path in folder.iterdir()}


@pytest.mark.parametrize("wrong", [3, 1 << 32], ids=["falls", "too far"])
def test_a_batch_whose_offset_no_index_can_hold_ends_the_good_ones(wrong: int, tmp_path: Path) -> None:
    good = [batch(offset) for offset in range(0, 20, 2)]
    harmed = put(tmp_path / "t-0", 0, *good, batch(wrong), batch(wrong + 2))
    put(tmp_path / "t-0", 100, batch(100))
    put(tmp_path / "alone-0", 0, *good)
    report = rebuild(str(tmp_path / "t-0"), str(tmp_path / "out"), index_interval_bytes=1, key_index=True, sync=False)
    alone = rebuild(
        str(tmp_path / "alone-0"), str(tmp_path / "alone"), index_interval_bytes=1, key_index=True, sync=False
    )
    assert not alone.lossy
    for suffix in ("index", "timeindex"):
        name = f"{0:020d}.{suffix}"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes()
    assert f"{harmed}: byte {sum(map(len, good))}" in report.losses[0]
    assert "1 more" not in report.losses[1]
    assert report.messages == 22
    assert f"{20:020d}.snapshot" in {path.name for path in (tmp_path / "out").iterdir()}
    with KeyIndex.open(str(tmp_path / "out" / f"{0:020d}.keyindex")) as index:
        assert index.header.entry_count == 20


def test_what_producers_did_is_given_up_where_it_cannot_be(tmp_path: Path) -> None:
    partition = tmp_path / "t-0"
    put(partition, 0, batch(0, producer_id=1, transactional=True, epoch=2))
    odd = put(partition, 2, batch(2, producer_id=1, epoch=5))
    put(partition, 4, batch(4, producer_id=2, epoch=7))
    report = rebuild(str(partition), str(tmp_path / "out"), sync=False)
    assert [f"{odd}: there is no .snapshot and no .txnindex from here on" in loss for loss in report.losses] == [True]
    assert report.snapshots == 1
    (state,) = load_producer_snapshot(str(tmp_path / "out" / f"{2:020d}.snapshot"))
    assert (state.producer_id, state.current_txn_first_offset) == (1, 0)
    epochs = LeaderEpochs.load(str(tmp_path / "out" / "leader-epoch-checkpoint"))
    assert [tuple(entry) for entry in epochs.entries] == [(2, 0), (5, 2), (7, 4)]


def test_an_unfinished_swap_is_named(tmp_path: Path) -> None:
    put(tmp_path / "t-0", 0, batch(0))
    (tmp_path / "t-0" / f"{0:020d}.log.swap").write_bytes(batch(0))
    report = rebuild(str(tmp_path / "t-0"), str(tmp_path / "out"), sync=False)
    assert ".log.swap is not read" in report.notes[0]
    assert not report.lossy


def test_partitions_without_a_log_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "logs" / "t-0", 0, batch(0))
    (tmp_path / "logs" / "u-0").mkdir()
    put(tmp_path / "logs" / f"gone-0.{'0' * 32}-delete", 0, batch(0))
    report = rebuild(str(tmp_path / "logs"), str(tmp_path / "out"), sync=False)
    assert report.partitions == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["t-0"]
    assert names(tmp_path / "out" / "t-0") == {".index", ".timeindex", "2.snapshot", "leader-epoch-checkpoint"}
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "empty-0" / "leader-epoch-checkpoint").touch()
    with pytest.raises(NotAStoreError, match=r"contains no \.log"):
        rebuild(str(tmp_path / "empty-0"), str(tmp_path / "no"))
    assert not (tmp_path / "no").exists()


def test_an_empty_segment_has_empty_indexes(tmp_path: Path) -> None:
    put(tmp_path / "t-0", 7)
    report = rebuild(str(tmp_path / "t-0"), str(tmp_path / "out"), sync=False)
    assert (report.messages, report.bytes, report.lossy) == (0, 0, False)
    assert {path.name.lstrip("0"): path.stat().st_size for path in (tmp_path / "out").iterdir()} == {
        "7.index": 0,
        "7.timeindex": 0,
        "7.snapshot": 10,
        "leader-epoch-checkpoint": 0,
    }


@pytest.mark.parametrize("jobs", [2, 4])
def test_threads_write_the_same(jobs: int, golden_log: Any, tmp_path: Path) -> None:
    logs = golden_log("tiny-broker")
    one, many = tmp_path / "one", tmp_path / "many"
    expected = rebuild(logs, one, key_index=True, sync=False)
    settings = rebuild_settings(None, key_index=True, sync=False)
    report = rebuild_on(LocalRunner(jobs=jobs), logs, many, settings, task_size_bytes=1)
    assert contents(many) == contents(one)
    facts = [{**each.to_json(), "seconds": 0, "kept": [], "tasks": 0} for each in (report, expected)]
    assert facts[0] == facts[1]


def test_progress_ends_at_what_was_read(tmp_path: Path) -> None:
    put(tmp_path / "t-0", 0, *(batch(offset) for offset in range(0, 10, 2)))
    put(tmp_path / "t-0", 10, batch(10))
    said: list[tuple[int, int]] = []
    runner = LocalRunner(lambda messages, size: said.append((messages, size)))
    report = rebuild_on(
        runner, str(tmp_path / "t-0"), str(tmp_path / "out"), rebuild_settings(None, key_index=False, sync=True)
    )
    assert said == sorted(said)
    assert said[-1] == (report.messages, report.bytes) == (12, 6 * len(batch(0)))
    assert report.assumed == ["index.interval.bytes 4096"]


def test_the_log_is_not_removed_as_what_a_killed_run_left(tmp_path: Path) -> None:
    log = put(tmp_path / f"{STAGING_PREFIX}1" / "t-0", 0, batch(0))
    with pytest.raises(UsageError, match="would be replaced"):
        rebuild(str(log.parent), str(tmp_path), sync=False)
    with pytest.raises(UsageError, match="would be replaced"):
        rebuild(str(log), str(tmp_path), sync=False)
    assert log.is_file()
