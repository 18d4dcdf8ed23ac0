"""What the API returns shows itself: what it is, where, how much, and whether it is open."""

from __future__ import annotations

import inspect
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import logdex
import logdex.sql
from logdex import kafka, rocketmq
from logdex.kafka import Log, Record
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.rocketmq import HAService, Message, MessageStore
from logdex.rocketmq.ha.timing import HATiming
from logdex.rocketmq.read.keys.key_search import KeySearch
from logdex.rocketmq.read.message_scan import LogScan

EXPORTED = [getattr(home, name) for home in (rocketmq, kafka) for name in home.__all__]
RETURNED = [LogDirSnapshot, PartitionSnapshot, KafkaScan, LogScan, KeySearch, logdex.sql.SqlSession]
CLASSES = [each for each in (*EXPORTED, *RETURNED) if inspect.isclass(each)]
CAN_BE_CLOSED = {kind for kind in CLASSES if hasattr(kind, "close")}
READ_ON = {*(rocketmq.CommitLog, rocketmq.ConsumeQueue), *(kafka.LogSegment, kafka.FileRecords, kafka.TransactionIndex)}
"""What opens its files again when it is read after `close`."""


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_public_class_has_a_repr_of_its_own(kind: type) -> None:
    own: object = kind.__repr__
    assert own is not object.__repr__


def test_a_store_and_its_parts(tmp_path: Path) -> None:
    root = tmp_path / "store"
    sizes: dict[str, Any] = {"mapped_file_size_commit_log": 4096, "max_hash_slot_num": 7, "max_index_num": 8}
    with MessageStore.open(root, background=False, **sizes) as store:
        end = store.put_message(Message("orders", b"paid", keys="k", queue_id=0)).size_bytes
        store.dispatch()
        assert repr(store) == f"MessageStore({str(root)!r}, CommitLog offsets 0 to {end}, open)"
        place = f"LogScan({str(root / 'commitlog')!r}, ReadFilter(topic=b'orders'"
        assert repr(store.scan("orders")).startswith(place)
        with HAService(store, port=0) as service:
            assert repr(service) == f"HAService({service.host}:{service.port}, 0 slaves, open)"
        assert repr(service).endswith(", closed)")
    assert repr(store).endswith(", closed)")
    with rocketmq.StoreSnapshot(root) as snapshot:
        log, queue, index = snapshot.commit_log, snapshot.consume_queue("orders", 0), snapshot.index_service
        place = "CommitLog from offset 0 on"
        assert repr(snapshot) == f"StoreSnapshot({str(root)!r}, {place}, 1 file, open)"
        assert repr(log) == f"CommitLog({str(root / 'commitlog')!r}, 1 file, offsets 0 to {log.end_offset})"
        folder = str(root / "consumequeue" / "orders" / "0")
        assert repr(queue) == f"ConsumeQueue({folder!r}, 1 file, offsets 0 to 1)"
        assert repr(index) == f"IndexService({str(root / 'index')!r}, 1 file, open)"
        file = index.files[0]
        assert repr(file) == f"IndexFile({file.path!r}, 2 entries, open)"
        assert repr(snapshot.scan("orders")).startswith(
            f"LogScan({str(root / 'commitlog')!r}, ReadFilter(topic=b'orders'"
        )
        assert repr(snapshot.search_messages("orders", "k")).startswith(f"KeySearch({str(root / 'commitlog')!r}, Key")
    assert repr(snapshot).endswith(", closed)")
    assert repr(index).endswith(", 0 files, closed)")
    assert repr(file).endswith(", closed)")


def test_a_log_and_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "events-0"
    with Log.open(path) as log:
        log.append([Record(value=b"a"), Record(value=b"b")])
        size = log.size_bytes
        assert repr(log) == f"Log({str(path)!r}, offsets 0 to 2, 1 segment, open)"
        transaction = log.transaction(7)
        assert repr(transaction) == "Transaction(producer 7, epoch 0, open, no records)"
        transaction.abort()
        assert repr(transaction) == "Transaction(producer 7, epoch 0, ended)"
        assert repr(log.scan()).startswith(f"KafkaScan(partitions=[LivePartitionSnapshot({str(path)!r}, 1 segment, ")
        assert ", _" not in repr(log.scan())
    assert repr(log).endswith(", closed)")
    with logdex.open(path.parent) as logs:
        assert repr(logs) == f"LogDirSnapshot({str(path.parent)!r}, 1 partition, open)"
        assert repr(logs.scan()).startswith("KafkaScan(partitions=[PartitionSnapshot(")
    assert repr(logs).endswith(", closed)")
    with logdex.open(path) as partition:
        assert isinstance(partition, PartitionSnapshot)
        assert repr(partition) == f"PartitionSnapshot({str(path)!r}, 1 segment, {size} bytes, open)"
        segment = partition.segments[0]
        assert repr(segment) == f"LogSegment({segment.log.path!r}, base offset 0, {size} bytes)"
        assert repr(segment.log) == f"FileRecords({segment.log.path!r}, {size} bytes)"
        index = segment.offset_index
        assert repr(index) == f"OffsetIndex({index.path!r}, 0 entries, open)"
        assert repr(segment.txn_index) == f"TransactionIndex({segment.txn_index.path!r}, 0 bytes)"
    assert repr(index).endswith(", closed)")
    assert repr(partition).endswith(", closed)")
    with kafka.LogReader(path, "billing") as reader:
        assert repr(reader) == f"LogReader({str(path)!r}, 'billing', position 0, open)"
    with logdex.sql.connect(path) as session:
        assert repr(session).startswith(f"SqlSession({str(path)!r}, records, partitions, ")
    with kafka.LogFollower(path) as follower:
        follower.poll()
        assert repr(follower) == f"LogFollower({str(path)!r}, offset 2, open)"
    assert repr(follower).endswith(", closed)")
    assert repr(kafka.KafkaLogDir(path.parent)) == f"KafkaLogDir({str(path.parent)!r})"


def test_a_transaction_with_records(tmp_path: Path) -> None:
    with Log.open(tmp_path / "events-0") as log, log.transaction(7) as transaction:
        transaction.append(Record(value=b"a"))
        assert repr(transaction) == "Transaction(producer 7, epoch 0, open)"
    assert repr(transaction) == "Transaction(producer 7, epoch 0, ended)"


def test_all_that_can_be_closed_says_whether_it_is_open(tmp_path: Path) -> None:
    root, path = tmp_path / "store", tmp_path / "logs" / "events-0"
    with ExitStack() as stack:
        store = stack.enter_context(MessageStore.open(root, background=False))
        store.put_message(Message("orders", b"paid", keys="k", queue_id=0))
        store.dispatch()
        snapshot = stack.enter_context(rocketmq.StoreSnapshot(root))
        service = stack.enter_context(HAService(store, port=0))
        log = stack.enter_context(Log.open(path))
        log.append([Record(key=b"k", value=b"a")])
        partition = kafka.PartitionSnapshot(path)
        segment = partition.segments[0]
        keys = Path(segment.log.path).with_suffix(".keyindex")
        keys.write_bytes(build_key_index(segment.log.path).tobytes())
        opened: list[Any] = [
            kafka.KeyIndex.open(keys),
            *(kafka.LogReader(path, "billing"), kafka.LogFollower(path)),
            *(segment.offset_index, segment.time_index, partition),
            *(kafka.LogDirSnapshot(path.parent), log),
            rocketmq.HAClient.connect(service.host, service.port, 0, HATiming()),
            rocketmq.Follower(f"{service.host}:{service.port}", tmp_path / "replica"),
            *(rocketmq.Consumer(root, "billing", "orders"), logdex.sql.connect(root)),
            *(snapshot.index_service.files[0], snapshot.index_service, snapshot, service, store),
        ]
        assert {type(each) for each in opened} == CAN_BE_CLOSED - READ_ON
        for each in opened:
            assert repr(each).rstrip(")").endswith(", open"), each
            each.close()
            assert repr(each).rstrip(")").endswith(", closed"), each
