"""Every golden case of both formats to the other and back: nothing is lost that the other can
carry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.sources.kafka import LogDirSource
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.translate import convert
from logdex.convert.translate.names import kafka_topic
from logdex.convert.translate.undelivered import SYSTEM_TOPICS
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.internal_topics import INTERNAL_TOPICS
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.layout.rocketmq import SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.message.body import decompress
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conformance.rocketmq.test_store import AS_THE_ENGINE_LEFT_IT, geometry_of
from tests.examples import cases
from tests.golden import kafka as golden_kafka

SMALL = {"mapped_file_size_commit_log": 4 << 20, "max_hash_slot_num": 1000, "max_index_num": 4000}
COMMITTED = ReadFilter(isolation="read_committed")


def messages_by_queue(root: Path, settings: dict[str, Any]) -> dict[tuple[str, int], list[Any]]:
    """What consumers can read of each queue, without the place in the log."""
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    with StoreSnapshot(str(root), **settings) as snapshot:
        for message in snapshot.scan():
            if message.transaction_type in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK):
                continue
            if to_text(message.topic) in SYSTEM_TOPICS:
                continue
            body = decompress(message.body, message.sys_flag, path="", position=0)
            found[to_text(message.topic), message.queue_id].append(
                (
                    *(body, message.flag, message.sys_flag & 0xC, message.born_timestamp_ms, message.born_host),
                    *(message.store_timestamp_ms, message.store_host, message.reconsume_times),
                    *(
                        message.prepared_transaction_offset,
                        {to_text(k): to_text(v) for k, v in message.properties.items()},
                    ),
                )
            )
    return found


def records_by_partition(root: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    with LogDirSnapshot(str(root)) as snapshot:
        for partition, record in snapshot.scan(isolation="read_committed").items():
            if partition.topic not in INTERNAL_TOPICS:
                headers = tuple(
                    (k if isinstance(k, bytes) else k.encode("utf-8", "surrogatepass"), v) for k, v in record.headers
                )
                found[partition.name].append((record.offset, record.timestamp_ms, record.key, record.value, headers))
    return found


def group_offsets(root: Path) -> dict[tuple[str, str, int], int]:
    offsets = KafkaLogDir(str(root)).consumer_offsets().offsets
    return {(group, *place): commit.offset for (group, place), commit in offsets.items()}


def store_offsets(root: Path) -> Iterator[tuple[str, str, int, int]]:
    for (topic, group), offsets in ConsumerOffsets.read(str(root / "config")).offsets.items():
        for queue_id, offset in offsets.items():
            yield to_text(topic), group.decode(), queue_id, offset


@pytest.mark.parametrize(("name", "recovered"), cases(AS_THE_ENGINE_LEFT_IT, 8))
def test_stores(golden_store: Callable[..., Path], tmp_path: Path, name: str, recovered: bool) -> None:
    root, settings = golden_store(name, recovered=recovered), geometry_of(name)
    there, back = tmp_path / "there", tmp_path / "back"
    expected = messages_by_queue(root, settings)
    report = convert(StoreSource(str(root), settings=settings), str(there), sync=False)
    assert report.messages == sum(map(len, expected.values()))
    told = ("offset", "message", "what may be behind it is not read")
    assert all(any(words in loss for words in told) for loss in report.losses), report.losses
    records = records_by_partition(there)
    assert {name: len(found) for name, found in records.items()} == {
        f"{kafka_topic(topic)}-{queue}": len(found) for (topic, queue), found in expected.items()
    }
    for topic, group, queue_id, offset in store_offsets(root):
        if (topic, queue_id) in expected and not any("moved up" in each for each in report.notes):
            first = records[f"{kafka_topic(topic)}-{queue_id}"][0][0]
            assert group_offsets(there)[group, kafka_topic(topic), queue_id] == max(offset, first)
    report = convert(LogDirSource(str(there), wanted=COMMITTED), str(back), settings=SMALL, sync=False)
    assert report.losses == []
    assert messages_by_queue(back, SMALL) == expected


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 3))
def test_log_directories(golden_log: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    root, there, back = golden_log(name), tmp_path / "there", tmp_path / "back"
    expected = {name: found for name, found in records_by_partition(root).items() if found}
    report = convert(LogDirSource(str(root), wanted=COMMITTED), str(there), settings=SMALL, sync=False)
    assert report.messages == sum(map(len, expected.values()))
    report = convert(StoreSource(str(there), settings=SMALL), str(back), sync=False)
    assert report.losses == []
    assert records_by_partition(back) == expected
    committed = {key: offset for key, offset in group_offsets(root).items() if f"{key[1]}-{key[2]}" in expected}
    for (group, topic, partition), offset in committed.items():
        left = [record for record in expected[f"{topic}-{partition}"] if record[0] >= offset]
        ours = group_offsets(back)[group, topic, partition]
        assert [record for record in expected[f"{topic}-{partition}"] if record[0] >= ours] == left
