"""What `convert`, `import` and `filter` write is served by the real engines: a store as Kafka logs,
an export as a store, a part of either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.export import export
from logdex.convert.filter.logs import filter_logs
from logdex.convert.filter.store import filter_store
from logdex.convert.load import load
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.translate import convert
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.kafka.peer import VERSIONS, needs_peers, read_log
from tests.interop.kafka.test_recover import our_records, told_record
from tests.interop.rocketmq import engines
from tests.interop.rocketmq.scenarios import run_peer
from tests.unit.convert.export.test_job import store

pytestmark = [pytest.mark.needs_java, pytest.mark.slow, pytest.mark.timeout(900)]

SIZES: dict[str, Any] = {
    "mapped_file_size_commit_log": 16384,
    "mapped_file_size_consume_queue": 400,
    "max_hash_slot_num": 100,
    "max_index_num": 1000,
}


def check_served_by_kafka(root: Path, version: str, count: int = 40) -> None:
    expected = sorted(our_records(root), key=lambda record: record[:2])
    lines = read_log(root, version, "--mode", "log", "--load", "marker")
    assert not [line for line in lines.get("log", []) if "failed" in line]
    assert sorted(map(told_record, lines["record"]), key=lambda record: record[:2]) == expected
    assert len(expected) == count


@needs_peers
@pytest.mark.parametrize("version", VERSIONS[:1])
def test_kafkas_classes_serve_a_converted_store(version: str, tmp_path: Path) -> None:
    convert(store(tmp_path / "store"), str(tmp_path / "logs"))
    check_served_by_kafka(tmp_path / "logs", version)


@needs_peers
@pytest.mark.parametrize("version", VERSIONS[:1])
def test_kafkas_classes_serve_an_import(version: str, tmp_path: Path) -> None:
    export(store(tmp_path / "store"), str(tmp_path / "lake"))
    convert(store(tmp_path / "store"), str(tmp_path / "logs"))
    export(LogDirSource(str(tmp_path / "logs")), str(tmp_path / "records"))
    load(str(tmp_path / "records"), str(tmp_path / "imported"), "kafka")
    check_served_by_kafka(tmp_path / "imported", version)


@needs_peers
@pytest.mark.parametrize("new_offsets", [False, True])
def test_kafkas_classes_serve_a_filtered_log(new_offsets: bool, tmp_path: Path) -> None:
    convert(store(tmp_path / "store"), str(tmp_path / "logs"))
    with LogDirSnapshot(str(tmp_path / "logs")) as snapshot:
        scan = snapshot.scan(isolation="read_committed")
        report = filter_logs(
            *(scan, tmp_path / "some", lambda _, record: record.offset % 3 > 0),
            source=str(tmp_path / "logs"),
            new_offsets=new_offsets,
        )
    assert 0 < report.messages < 40
    check_served_by_kafka(tmp_path / "some", VERSIONS[0], report.messages)


@pytest.mark.parametrize("version", engines.VERSIONS)
def test_the_engine_goes_on_in_a_filtered_store(version: str, peers_dir: Path, tmp_path: Path) -> None:
    export(store(tmp_path / "store"), str(tmp_path / "lake"))
    root, whole = tmp_path / "some", tmp_path / "whole"
    load(str(tmp_path / "lake"), str(whole), "rocketmq", settings={**SIZES, "rocketmq_version": version})
    with StoreSnapshot(str(whole), **SIZES, rocketmq_version=version) as snapshot:
        report = filter_store(
            *(snapshot, snapshot.scan(), root, lambda message, _: message.queue_offset % 3 > 0), source=str(whole)
        )
    check_goes_on(peers_dir, root, version, report.messages)


@pytest.mark.parametrize("version", engines.VERSIONS[:1])
def test_the_engine_goes_on_in_an_import(version: str, peers_dir: Path, tmp_path: Path) -> None:
    export(store(tmp_path / "store"), str(tmp_path / "lake"))
    root = tmp_path / "imported"
    load(str(tmp_path / "lake"), str(root), "rocketmq", settings={**SIZES, "rocketmq_version": version})
    check_goes_on(peers_dir, root, version, 40)


def check_goes_on(peers_dir: Path, root: Path, version: str, count: int) -> None:
    """The engine opens a store with so many messages, and puts 60 more."""
    config = StoreConfig(**SIZES, dialect=Dialect.of(version))
    before = verify(str(root), config)
    assert ([str(finding) for finding in before.findings], before.messages) == ([], count)
    arguments = ("WriteStore", "--dir", root, "--seed", "1", "--messages", "60", "--features", "tags,keys,uniq")
    [summary] = run_peer(peers_dir, version, *arguments, "--topics", "TopicA,TopicB").splitlines()
    assert json.loads(summary)["maxPhyOffset"] > 0
    after = verify(str(root), config)
    assert ([str(finding) for finding in after.findings], after.messages) == ([], count + 60)
