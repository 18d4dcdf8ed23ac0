"""Every golden case of both formats, filtered: nothing but the place of a message is new, and what
is written is sound."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from logdex.convert.filter.logs import OFFSET_TOPICS, filter_logs
from logdex.convert.filter.store import filter_store
from logdex.formats import detect, format_of
from logdex.kafka.batch.record import Record
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.rocketmq.commit_log.log_end import EndKind
from logdex.rocketmq.message.own_topics import UNDELIVERED_TOPICS
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from tests.conformance.rocketmq.test_store import AS_THE_ENGINE_LEFT_IT, geometry_of
from tests.examples import cases
from tests.golden import kafka as golden_kafka

COMMITTED = "read_committed"


def findings(path: Path, settings: dict[str, Any]) -> list[Any]:
    found = detect(str(path))
    return format_of(found).verify(found, settings, max_findings=10).findings


def kept(message: StoredMessage) -> tuple[Any, ...]:
    """What of a message does not depend on its place in the log."""
    place = (message.topic, message.queue_id, message.store_timestamp_ms, message.born_timestamp_ms)
    flags = (message.flag, message.sys_flag, message.reconsume_times, message.prepared_transaction_offset)
    return *place, *flags, message.born_host, message.store_host, message.body, message.properties


def is_own(message: StoredMessage) -> bool:
    return message.topic in UNDELIVERED_TOPICS


@pytest.mark.parametrize(("name", "recovered"), cases(AS_THE_ENGINE_LEFT_IT, 6))
def test_stores(golden_store: Callable[..., Path], tmp_path: Path, name: str, recovered: bool) -> None:
    root, settings = golden_store(name, recovered=recovered), geometry_of(name)
    with StoreSnapshot(str(root), **settings) as snapshot:
        everything = [message for message in snapshot.scan() if not is_own(message)]
        own = Counter(message.topic.decode() for message in snapshot.scan() if is_own(message))
        version = snapshot.config.dialect.version
        is_torn = snapshot.valid_end.kind is EndKind.TORN  # it is told of, and no loss
        for system_topics in (False, True):
            output = tmp_path / f"all-{system_topics}"
            report = filter_store(
                *(snapshot, snapshot.scan(), output), source=str(root), system_topics=system_topics, sync=False
            )
            assert report.messages == len(everything) + (own.total() if system_topics else 0)
            assert len(report.notes) == is_torn + (0 if system_topics else len(own))
        report = filter_store(
            *(snapshot, snapshot.scan(), tmp_path / "half", lambda message, _: message.queue_id % 2 == 0),
            source=str(root),
            sync=False,
        )
    sizes = {name: settings[name] for name in settings if name != "rocketmq_version"} | {"rocketmq_version": version}
    wanted = {"all-False": everything, "half": [each for each in everything if each.queue_id % 2 == 0]}
    for folder, messages in wanted.items():
        with StoreSnapshot(tmp_path / folder, **sizes) as snapshot:
            assert list(map(kept, snapshot.scan())) == list(map(kept, messages))
    for folder in ("all-False", "all-True", "half"):
        if folder != "half" or wanted["half"]:
            assert findings(tmp_path / folder, sizes) == []


def told(record: Record) -> tuple[Any, ...]:
    return record.offset, record.key, record.value, record.headers, record.timestamp_ms


@pytest.mark.parametrize("name", cases(golden_kafka.NAMES, 6))
def test_log_directories(golden_log: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    root = golden_log(name)

    def passes(partition: PartitionSnapshot, record: Record) -> bool:
        return (record.offset + partition.partition) % 3 != 0

    def filtered(folder: str, passes: Any = None, *, new_offsets: bool = False) -> dict[str, list[Any]]:
        with LogDirSnapshot(str(root)) as snapshot:
            output = tmp_path / folder
            scan = snapshot.scan(isolation=COMMITTED)
            filter_logs(scan, output, passes, source=str(root), new_offsets=new_offsets, sync=False)
        assert findings(output, {}) == []
        with LogDirSnapshot(str(output)) as new:
            return {path: found for path, one in new.partitions.items() if (found := list(map(told, one.scan())))}

    with LogDirSnapshot(str(root)) as snapshot:
        rows = list(snapshot.scan(isolation=COMMITTED).items())
    everything: dict[str, list[Any]] = {}
    some: dict[str, list[Any]] = {}
    anew: dict[str, list[Any]] = {}
    for partition, record in rows:
        everything.setdefault(partition.name, []).append(told(record))
        if passes(partition, record):
            some.setdefault(partition.name, []).append(told(record))
        if partition.topic not in OFFSET_TOPICS:
            numbered = anew.setdefault(partition.name, [])
            numbered.append((len(numbered), *told(record)[1:]))
    assert filtered("all") == everything
    assert filtered("some", passes) == some
    assert filtered("anew", new_offsets=True) == anew
