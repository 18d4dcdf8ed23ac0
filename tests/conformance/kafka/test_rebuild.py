"""Rebuilt files of every golden log directory: the bytes that the real engine's recovery writes,
however it is cut."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logdex.jobs.tasks import LocalRunner
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.rebuild import rebuild, rebuild_on, rebuild_settings
from logdex.kafka.rebuild.report import KafkaRebuildReport
from tests.directories import digests, tree_hash
from tests.examples import cases
from tests.golden import kafka as golden_kafka
from tests.unit.rocketmq.rebuild.test_job import Serial

DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")
GoldenLog = Callable[[str], Path]


def expected_files(name: str) -> dict[str, str]:
    """SHA-256 by path of what the real recovery derives."""
    return {
        f"{line['partition']}/{line['name']}": line["sha256"]
        for line in golden_kafka.lines(name, "recovered", "file")
        if line["name"].endswith(DERIVED)
    }


def dropped(name: str) -> set[tuple[str, int]]:
    return {(line["partition"], line["segment"]) for line in golden_kafka.lines(name, "recovered", "dropped")}


def check_files(name: str, output: Path) -> None:
    """The output holds what the real recovery derives, and of dropped segments their own
    indexes."""
    found = digests(output)
    for partition, base in dropped(name):
        for suffix in (".index", ".timeindex"):
            assert found.pop(f"{partition}/{base:020d}{suffix}")
    assert found == expected_files(name)


def facts(report: KafkaRebuildReport) -> dict[str, Any]:
    own = ("engine", "tasks", "seconds", "kept")
    return {field: value for field, value in report.to_json().items() if field not in own}


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_rebuilt_files_are_those_of_the_real_recovery(name: str, golden_log: GoldenLog, tmp_path: Path) -> None:
    store, interval = golden_log(name), golden_kafka.index_interval_bytes(name)
    before = tree_hash(store)
    report = rebuild(str(store), str(tmp_path / "out"), index_interval_bytes=interval, sync=False)
    check_files(name, tmp_path / "out")
    assert tree_hash(store) == before
    recovered = golden_kafka.lines(name, "recovered", "recovered")
    assert report.files == len(digests(tmp_path / "out"))
    assert report.partitions == len({line["partition"] for line in recovered})
    assert report.segments == len(recovered) + len(dropped(name))
    torn = {(line["partition"], line["segment"]) for line in recovered if line["truncatedBytes"]}
    told = " ".join(report.losses + report.notes)
    for partition, base in torn:
        assert f"{partition}/{base:020d}.log: byte " in told
    harmed = {each["file"] for each in golden_kafka.manifest(name).get("damage") or []}
    also = {f"{partition}/{base:020d}.log" for partition, base in dropped(name)} & harmed
    lines = len(torn) + len({partition for partition, _ in dropped(name)}) + len(also)
    assert len(report.losses + report.notes) == lines
    assert all("nothing but zeros" in note for note in report.notes)


@pytest.mark.parametrize(("name", "window_batches"), cases(itertools.product(golden_kafka.NAMES, [1, 7]), 3))
def test_windows_and_tasks_change_nothing(
    name: str, window_batches: int, golden_log: GoldenLog, tmp_path: Path
) -> None:
    store = golden_log(name)
    settings = rebuild_settings(golden_kafka.index_interval_bytes(name), key_index=False, sync=False)
    expected = rebuild_on(LocalRunner(), str(store), str(tmp_path / "local"), settings)
    runner = Serial(window_batches, attempts=2)
    settings = replace(settings, window_batches=window_batches)
    size = max(1, expected.bytes // 6)
    report = rebuild_on(runner, str(store), str(tmp_path / "out"), settings, engine="spark", task_size_bytes=size)
    check_files(name, tmp_path / "out")
    assert facts(report) == facts(expected)
    assert (report.engine, report.tasks) == ("spark", runner.tasks)
    assert runner.tasks > 1


@pytest.mark.parametrize("name", golden_kafka.NAMES)
def test_one_partition_and_one_segment_by_themselves(name: str, golden_log: GoldenLog, tmp_path: Path) -> None:
    store, interval = golden_log(name), golden_kafka.index_interval_bytes(name)
    wanted: dict[str, dict[str, str]] = defaultdict(dict)
    for path, digest in expected_files(name).items():
        partition, file = path.split("/")
        wanted[partition][file] = digest
    lost = dropped(name)
    for partition, files in wanted.items():
        out = tmp_path / f"{partition}-out"
        rebuild(str(store / partition), str(out), index_interval_bytes=interval, sync=False)
        found = digests(out)
        for base in (base for where, base in lost if where == partition):
            found = {file: digest for file, digest in found.items() if not file.startswith(f"{base:020d}.")}
        assert found == files
    partition = sorted(wanted)[0]
    for log in sorted((store / partition).glob("*.log")):
        out = tmp_path / log.stem
        report = rebuild(str(log), str(out), index_interval_bytes=interval, key_index=True, sync=False)
        names = [log.stem + suffix for suffix in (".index", ".keyindex", ".timeindex")]
        assert sorted(digests(out)) == names
        if not report.lossy:
            assert (out / names[1]).read_bytes() == bytes(build_key_index(str(log)))
