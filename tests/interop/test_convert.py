"""What `convert`, `import` and `filter` write is served by the real engines: a store as Kafka logs,
an export as a store, a part of either."""

from __future__ import annotations

import base64
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.export import export
from logdex.convert.filter.logs import filter_logs
from logdex.convert.filter.store import filter_store
from logdex.convert.load import load
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.translate import convert
from logdex.kafka.batch.record import Record
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.internal_topics.consumer_offsets import TOPIC as OFFSETS_TOPIC
from logdex.kafka.internal_topics.consumer_offsets import offset_commit, partition_for
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.verify import verify
from tests.interop.kafka.peer import VERSIONS, needs_peers, read_log, run_broker, serving
from tests.interop.kafka.test_recover import our_records, told_record
from tests.interop.rocketmq import engines
from tests.interop.rocketmq.programs import Program
from tests.interop.rocketmq.scenarios import GEOMETRY, run_peer
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
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broker_goes_on_with_the_groups_of_a_converted_store(version: str, tmp_path: Path) -> None:
    """The broker's own partitions, those of its groups among them, get the files that we wrote."""
    source, logs, home = store(tmp_path / "store"), tmp_path / "logs", tmp_path / "home"
    offsets = ConsumerOffsetManager(str(tmp_path / "store"))
    offsets.commit_offsets("G", {(b"TopicA", 0): 13, (b"TopicA", 2): 8, (b"%RETRY%g", 1): 0})
    offsets.commit_offset("H", "TopicA", 1, 34)
    assert convert(source, str(logs)).groups == 2
    broker = {"offsets.topic.num.partitions": "50", "log.cleaner.enable": "false"}
    topics = [{"name": name, "partitions": 3} for name in ("TopicA", "_25RETRY_25g")]
    topics.append({"name": "__consumer_offsets", "partitions": 50})
    run_broker(home, version, {"broker": broker, "topics": topics})
    for folder in filter(Path.is_dir, logs.iterdir()):
        for file in (home / folder.name).iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in folder.iterdir():
            if file.name != "partition.metadata":
                shutil.copy(file, home / folder.name)
    shutil.copy(logs / "log-start-offset-checkpoint", home)
    with serving(home, version, {"broker": broker}) as running:
        first, second = running.committed("G"), running.committed("H")
    assert first["committed"] == {"TopicA-0": 13, "TopicA-2": 8, "_25RETRY_25g-1": 1}
    assert first["next"] == {"TopicA-0": 18, "TopicA-2": 8, "_25RETRY_25g-1": 1}
    assert second == {"committed": {"TopicA-1": 34}, "next": {"TopicA-1": 34}}


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


@pytest.mark.parametrize("version", engines.VERSIONS)
def test_a_broker_serves_converted_logs_to_their_groups(version: str, peers_dir: Path, tmp_path: Path) -> None:
    """The engine reads from the store what the logs had, and finds it by key; a consumer goes on
    where its group was."""
    logs, root = tmp_path / "logs", tmp_path / "store"
    for partition in range(2):
        with Log.open(logs / f"orders-{partition}") as log:
            for number in range(20):
                value = f"{partition}-{number}".encode()
                headers = (("trace", b"%d" % number),)
                log.append([Record(key=b"k-" + value, value=value, timestamp_ms=1_700_000_000_000, headers=headers)])
    with Log.open(logs / f"{OFFSETS_TOPIC}-{partition_for('G')}") as log:
        now_ms = time.time_ns() // 1_000_000
        log.append([offset_commit("G", TopicPartition("orders", part), 7 + part, now_ms) for part in range(2)])
    settings = {**SIZES, "rocketmq_version": version}
    report = convert(LogDirSource(str(logs)), str(root), settings=settings)
    assert (report.messages, report.groups, report.losses) == (40, 1, [])
    check_dump(peers_dir, root, version)
    program = Program(peers_dir, version, "ConsumeStore", tmp_path)
    lines = [line.split() for line in program.run("--dir", root, "--group", "G", "--topic", "orders", *GEOMETRY)]
    later = [f"{part} {number} 0 {part}-{number}" for part in range(2) for number in range(7 + part, 20)]
    assert sorted(lines) == sorted(line.split() for line in later)
    assert ConsumerOffsetManager(root).query_offsets("G", "orders") == {0: 20, 1: 20}


def check_dump(peers_dir: Path, root: Path, version: str) -> None:
    """The engine reads the messages, the entries of the queues and those of keys that we read."""
    with StoreSnapshot(str(root), **SIZES, rocketmq_version=version) as snapshot:
        ours = [*snapshot.scan().items()]
    queries = root.with_name("queries")
    keys = [(message.topic.decode(), message.keys[0].decode()) for _, message in ours]
    queries.write_text("".join(f"{topic}\t{key}\t64\t0\t{1 << 62}\n" for topic, key in keys), "utf-8")
    lines = [
        json.loads(line)
        for line in run_peer(peers_dir, version, "DumpStore", "--dir", root, "--queries", queries).splitlines()
    ]
    told = {kind: [line for line in lines if line["type"] == kind] for kind in ("message", "entry", "query")}
    fields = ("topic", "queueId", "queueOffset", "physicalOffset")
    places = [(each.topic.decode(), each.queue_id, each.queue_offset, offset) for offset, each in ours]
    assert [tuple(line[field] for field in fields) for line in told["message"]] == places
    texts = [(base64.b64encode(each.body).decode(), each.properties_raw.decode()) for _, each in ours]
    assert [(line["body"], line["properties"]) for line in told["message"]] == texts
    assert all(line["read"] for line in told["entry"])
    assert sorted(tuple(line[field] for field in fields) for line in told["entry"]) == sorted(places)
    assert all(offset in line["physicalOffsets"] for line, (offset, _) in zip(told["query"], ours, strict=True))


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
