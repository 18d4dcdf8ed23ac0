"""The partition in `older/`, which Kafka 4.0.0 wrote: its index entries are those of whole appends,
and no finding."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests.unit.kafka.verify.older_broker import OlderBroker, batches_of

WRITTEN = Path(__file__).parent / "older" / "events-0"
INTERVAL, PER_APPEND = 300, 3


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(WRITTEN, tmp_path / "events-0")


@pytest.mark.parametrize("version", ["4.4.0", "4.0.0"])
def test_it_has_no_findings(folder: Path, version: str) -> None:
    report = verify(folder, LogConfig(index_interval_bytes=INTERVAL, kafka_version=version))
    assert (report.findings, report.messages) == ([], 56)
    (told,) = [info for info in report.infos if info.kind == "older-index-entries"]
    assert told.message.startswith("7 index entries are as only brokers before 3.9.1, and 4.0.0, write them")


def test_the_broker_of_the_tests_writes_the_same_indexes(tmp_path: Path) -> None:
    broker = OlderBroker(tmp_path / "events-0", INTERVAL)
    for number, log in enumerate(sorted(WRITTEN.glob("*.log"))):
        if number:
            broker.roll()
        batches = [each.raw for each in batches_of(log.read_bytes())]
        for place in range(0, len(batches), PER_APPEND):
            broker.append(b"".join(batches[place : place + PER_APPEND]))
    broker.close()
    assert len(list(WRITTEN.iterdir())) == 6
    for path in WRITTEN.iterdir():
        assert (tmp_path / "events-0" / path.name).read_bytes() == path.read_bytes()


def test_each_record_is_found(folder: Path) -> None:
    with open_kafka(folder) as partition:
        assert isinstance(partition, PartitionSnapshot)
        records = partition.read(0)
        assert [record.offset for record in records] == list(range(56))
        for record in records:
            assert partition.read(record.offset)[0] == record
            found = partition.offset_for_timestamp(record.timestamp_ms)
            first = next(each for each in records if each.timestamp_ms >= record.timestamp_ms)
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (first.offset, first.timestamp_ms)


def test_what_is_derived_from_it_has_entries_of_batches(folder: Path, tmp_path: Path) -> None:
    config = LogConfig(index_interval_bytes=INTERVAL)
    rebuild(folder, tmp_path / "rebuilt" / "events-0", index_interval_bytes=INTERVAL)
    recover(folder, tmp_path / "recovered" / "events-0", config, sync=False)
    for log in folder.glob("*.log"):
        (tmp_path / "rebuilt" / "events-0" / log.name).write_bytes(log.read_bytes())
    for name in ("rebuilt", "recovered"):
        report = verify(tmp_path / name / "events-0", config)
        assert report.findings == []
        assert {info.kind for info in report.infos}.isdisjoint({"older-index-entries", "index-differs"})
