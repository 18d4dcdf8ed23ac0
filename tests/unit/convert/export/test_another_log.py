"""A lake goes on with the log that it was exported from, and with no other one."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.export import ExportReport, export
from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.errors import UsageError
from logdex.kafka import Log, Record
from logdex.kafka.files.metadata_files import MetaProperties, PartitionMetadata
from logdex.rocketmq.recover import recover
from logdex.testing.store_builder import write_commit_log
from tests.directories import contents
from tests.unit.convert.export.lakes import exported
from tests.unit.rocketmq.small_stores import CONFIG, FILE_SIZE, START_MS, message

SETTINGS = {"mapped_file_size_commit_log": FILE_SIZE, "rocketmq_version": "5.5.0"}
ANOTHER = "is another log than the one in this lake: "


# -- RocketMQ ------------------------------------------------------------------------------------
def store(root: Path, count: int, **changes: Any) -> StoreSource:
    write_commit_log(str(root), [message(number, **changes) for number in range(count)], FILE_SIZE)
    return StoreSource(str(root), settings=SETTINGS)


def refuse(source: StoreSource | LogDirSource, lake: Path, why: str) -> None:
    """The export raises the error, and leaves the lake as it was."""
    before = contents(lake)
    with pytest.raises(UsageError, match=ANOTHER + why) as raised:
        export(source, str(lake), sync=False)
    assert raised.value.hint == "choose another --output"
    assert contents(lake) == before


def added(source: StoreSource | LogDirSource, lake: Path) -> ExportReport:
    return export(source, str(lake), sync=False)


def without_marks(lake: Path) -> None:
    """Makes a lake as a Logdex wrote it that kept no marks."""
    for path in (lake / "_logdex").iterdir():
        given = json.loads(path.read_text())
        del given["marks"]
        path.write_text(json.dumps(given | {"logdex_export": 1}))


def test_another_store_whose_messages_are_as_large(tmp_path: Path) -> None:
    """All boundaries are the same, so that the position tells nothing."""
    lake = tmp_path / "lake"
    added(store(tmp_path / "one", 20), lake)
    refuse(
        store(tmp_path / "other", 40, store_timestamp_ms=START_MS - 1), lake, "at physical offset .* is a message of"
    )


def test_another_store_whose_messages_are_larger(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(store(tmp_path / "one", 20), lake)
    refuse(store(tmp_path / "other", 40, body=b"a longer body"), lake, "no message begins at physical offset")
    without_marks(lake)
    refuse(store(tmp_path / "other", 40, body=b"a longer body"), lake, "no message begins at physical offset")


def test_a_store_that_was_wiped_and_grew_again(tmp_path: Path) -> None:
    root, lake = tmp_path / "store", tmp_path / "lake"
    added(store(root, 20), lake)
    shutil.rmtree(root)
    refuse(store(root, 40, keys="new"), lake, "")


def test_a_store_that_grows_message_by_message(tmp_path: Path) -> None:
    """Each end is where a run may find it: behind a message, at a filler, at the end of a file."""
    root, lake = tmp_path / "store", tmp_path / "lake"
    for count in range(1, 40):
        assert added(store(root, count), lake).messages == 1
        assert added(store(root, count), lake).run == 0
    assert len(exported(lake)) == 39


def test_a_store_that_lost_the_last_message_read_to_retention(tmp_path: Path) -> None:
    root, lake = tmp_path / "store", tmp_path / "lake"
    added(store(root, 8), lake)
    source = store(root, 40)
    files = sorted((root / "commitlog").iterdir())
    for file in files[:2]:
        file.unlink()
    report = added(source, lake)
    assert "were removed before they were read" in report.losses[0]
    assert len(report.losses) == 1


def test_a_last_message_that_is_damaged_since(tmp_path: Path) -> None:
    """Damage is no sign of another log."""
    root, lake = tmp_path / "store", tmp_path / "lake"
    added(store(root, 5), lake)
    source = store(root, 20)
    first = sorted((root / "commitlog").iterdir())[0]
    data = first.read_bytes()
    first.write_bytes(data.replace(b"body 4", b"bodY 4"))
    report = added(source, lake)
    assert (report.messages, report.losses) == (15, [])


def test_a_recovered_store_goes_on(tmp_path: Path) -> None:
    root, lake = tmp_path / "store", tmp_path / "lake"
    source = store(root, 40)
    for file in sorted((root / "commitlog").iterdir())[1:]:
        file.write_bytes(file.read_bytes().replace(b"body 2", b"bodY 2"))
    assert added(source, lake).lossy
    recover(str(root), str(tmp_path / "mended"), CONFIG, sync=False)
    assert added(StoreSource(str(tmp_path / "mended"), settings=SETTINGS), lake).run in (0, 2)


def test_a_store_shorter_than_the_lake(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(store(tmp_path / "store", 20), lake)
    with pytest.raises(UsageError, match="it was cut, or is another log"):
        added(store(tmp_path / "store2", 10), lake)


def test_a_lake_of_an_older_version_goes_on(tmp_path: Path) -> None:
    root, lake = tmp_path / "store", tmp_path / "lake"
    added(store(root, 10), lake)
    without_marks(lake)
    assert added(store(root, 20), lake).messages == 10
    refuse(store(tmp_path / "other", 40, store_timestamp_ms=START_MS - 1), lake, "")


# -- Kafka ---------------------------------------------------------------------------------------
IDS = [uuid.UUID(int=number) for number in (1, 2)]


def partition(
    root: Path,
    first: int,
    count: int,
    *,
    value: bytes = b"v",
    topic_id: uuid.UUID | None = None,
    cluster_id: str | None = None,
    epoch: int = 0,
    key: bytes = b"k%d",
    **settings: Any,
) -> LogDirSource:
    """Appends a record per batch to the log at `root`."""
    with Log.open(str(root / "events-0"), **settings) as log:
        for number in range(first, first + count):
            name = key % number if b"%" in key else key
            log.append([Record(key=name, value=value, timestamp_ms=START_MS + number)], leader_epoch=epoch)
    if topic_id is not None:
        PartitionMetadata(topic_id).write(str(root / "events-0" / "partition.metadata"))
    if cluster_id is not None:
        MetaProperties(1, cluster_id, 1).write(str(root / "meta.properties"))
    return LogDirSource(str(root))


def test_a_topic_deleted_and_created_again(tmp_path: Path) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5, topic_id=IDS[0]), lake)
    assert added(partition(root, 5, 5), lake).messages == 5
    shutil.rmtree(root / "events-0")
    (root / "events-0").mkdir()
    refuse(partition(root, 0, 20, topic_id=IDS[1]), lake, "its topic has the id AAAAAAAAAAAAAAAAAAAAAg now")


def test_a_topic_that_is_gone_for_a_run_and_then_another(tmp_path: Path) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5, topic_id=IDS[0]), lake)
    shutil.move(root / "events-0", tmp_path / "gone")
    with Log.open(str(root / "others-0")) as log:
        log.append([Record(value=b"v", timestamp_ms=START_MS)])
    assert added(LogDirSource(str(root)), lake).messages == 1
    refuse(partition(root, 0, 20, topic_id=IDS[1]), lake, "its topic has the id")


def test_a_shorter_topic_created_again_is_named_by_its_id(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(partition(tmp_path / "one", 0, 5, topic_id=IDS[0]), lake)
    refuse(partition(tmp_path / "other", 0, 2, topic_id=IDS[1]), lake, "its topic has the id")


def test_another_cluster_and_another_directory_without_ids(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(partition(tmp_path / "one", 0, 5, cluster_id="A"), lake)
    other = partition(tmp_path / "other", 0, 20, cluster_id="B")
    refuse(other, lake, "it is of the cluster B, and what was read was of the cluster A")
    none = partition(tmp_path / "none", 0, 20, value=b"other")
    refuse(none, lake, "the batch at offsets 4 to 4 is not the one that was read")


def test_a_lake_goes_on_with_another_replica_and_with_a_directory_that_got_ids(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    added(partition(tmp_path / "one", 0, 5), lake)
    added(partition(tmp_path / "one", 5, 1, topic_id=IDS[0], cluster_id="A"), lake)
    other = partition(tmp_path / "other", 0, 9, topic_id=IDS[0], cluster_id="A")
    assert added(other, lake).messages == 3


def test_retention_removed_the_last_batch_read(tmp_path: Path) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5), lake)
    with Log.open(str(root / "events-0")) as log:
        log.roll()
    partition(root, 5, 3)
    with Log.open(str(root / "events-0")) as log:
        log.roll()
        log.delete_records(8)
    partition(root, 8, 2)
    report = added(LogDirSource(str(root)), lake)
    assert (report.messages, len(report.losses)) == (2, 1)


@pytest.mark.parametrize("rewrites", [False, True], ids=["removed", "rewritten"])
def test_compaction_of_what_was_read(tmp_path: Path, rewrites: bool) -> None:
    """The last batch read is gone, or has lost records: it is the same log."""
    root, lake = tmp_path / "logs", tmp_path / "lake"
    with Log.open(str(root / "events-0"), cleanup_policy="compact") as log:
        keys = (b"kept", b"a") if rewrites else (b"a", b"a")
        log.append([Record(key=key, value=b"v", timestamp_ms=START_MS) for key in keys])
        added(LogDirSource(str(root)), lake)
        log.append([Record(key=b"a", value=b"new", timestamp_ms=START_MS)])
        log.roll()
        log.append([Record(key=b"b", value=b"new", timestamp_ms=START_MS)])
        log.compact()
        assert log.read(0)[0].offset == (0 if rewrites else 2)
    report = added(LogDirSource(str(root)), lake)
    assert (report.messages, report.losses) == (2, [])


@pytest.mark.parametrize("topic_id", [None, IDS[0]])
def test_a_tail_that_a_change_of_leader_replaced_is_told(tmp_path: Path, topic_id: uuid.UUID | None) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5, topic_id=topic_id), lake)
    with Log.open(str(root / "events-0")) as log:
        log.truncate_to(3)
    source = partition(root, 3, 6, value=b"of the new leader", epoch=1)
    report = added(source, lake)
    assert report.messages == 4
    assert "the batch at offsets 4 to 4 was replaced since it was read" in report.losses[0]
    assert added(partition(root, 9, 1, epoch=1), lake).losses == []


def test_a_log_cut_by_a_crash(tmp_path: Path) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5), lake)
    with Log.open(str(root / "events-0")) as log:
        log.truncate_to(3)
    with pytest.raises(UsageError, match="it was cut, or is another log"):
        added(LogDirSource(str(root)), lake)


def test_damage_in_the_last_batch_read_is_no_other_log(tmp_path: Path) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5, value=b"value"), lake)
    source = partition(root, 5, 5)
    file = next((root / "events-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[data.rindex(b"value")] ^= 1
    file.write_bytes(data)
    assert (added(source, lake).messages) == 5


def test_a_kafka_lake_of_an_older_version_goes_on(tmp_path: Path) -> None:
    root, lake = tmp_path / "logs", tmp_path / "lake"
    added(partition(root, 0, 5, topic_id=IDS[0]), lake)
    without_marks(lake)
    assert added(partition(root, 5, 5), lake).messages == 5
    refuse(partition(tmp_path / "other", 0, 20, topic_id=IDS[1]), lake, "its topic has the id")


@pytest.mark.parametrize("mark", [{"offset": "x"}, {"last_offset": []}, {}, {"topic_id": 7}])
def test_strange_marks_say_nothing(tmp_path: Path, mark: dict[str, Any]) -> None:
    for source, lake in (
        (store(tmp_path / "store", 5), tmp_path / "lake"),
        (partition(tmp_path / "logs", 0, 5), tmp_path / "records"),
    ):
        added(source, lake)
        path = lake / "_logdex" / "000001.json"
        given = json.loads(path.read_text())
        path.write_text(json.dumps(given | {"marks": dict.fromkeys(given["positions"], mark)}))
        assert added(source, lake).run == 0
