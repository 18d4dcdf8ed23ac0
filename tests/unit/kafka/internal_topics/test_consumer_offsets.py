from __future__ import annotations

import struct
from pathlib import Path

import pytest

from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.internal_topics.consumer_offsets import (
    CommittedOffset,
    ConsumerOffsets,
    GroupMetadata,
    read_consumer_offsets,
)
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL
from tests.unit.kafka.batch.batch_bytes import batch, record


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def key(group: str, partition: int, version: int = 1) -> bytes:
    return struct.pack(">h", version) + text(group) + text("orders") + struct.pack(">i", partition)


def value(offset: int, version: int = 3, metadata: str = "m") -> bytes:
    if version == 4:
        compact = bytes([len(metadata) + 1]) + metadata.encode()
        return struct.pack(">hqi", 4, offset, 7) + compact + struct.pack(">q", 99) + b"\x01\x05\x02xx"
    epoch = struct.pack(">i", 7) if version >= 3 else b""
    expires = struct.pack(">q", 1234) if version == 1 else b""
    return struct.pack(">hq", version, offset) + epoch + text(metadata) + struct.pack(">q", 99) + expires


class Topic:
    """A partition of __consumer_offsets that grows by a batch a call."""

    def __init__(self, path: Path) -> None:
        self.path = path / "__consumer_offsets-0"
        self.path.mkdir()
        self.offset = 0
        self.data = b""

    def add(self, record_key: bytes, record_value: bytes | None, attributes: int = 0, producer: int = -1) -> None:
        payload = record(0, 0, record_key, record_value)
        ids = (producer, 0, 0) if producer >= 0 else (-1, -1, -1)
        self.data += batch(payload, 1, base_offset=self.offset, attributes=attributes, producer=ids)
        self.offset += 1

    def end(self, producer: int, kind: int) -> None:
        marker = struct.pack(">hi", 0, 0)
        self.add(struct.pack(">hh", 0, kind), marker, BATCH_TRANSACTIONAL | BATCH_CONTROL, producer)

    def read(self) -> ConsumerOffsets:
        (self.path / f"{0:020d}.log").write_bytes(self.data)
        return read_consumer_offsets([str(self.path)])


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(tmp_path)


@pytest.mark.parametrize(
    ("version", "expected"), [(0, (-1, -1)), (1, (-1, 1234)), (2, (-1, -1)), (3, (7, -1)), (4, (7, -1))]
)
def test_every_version_of_a_commit(topic: Topic, version: int, expected: tuple[int, int]) -> None:
    topic.add(key("g", 5, version % 2), value(42, version))
    leader_epoch, expires = expected
    found = topic.read()
    assert found.offsets == {("g", TopicPartition("orders", 5)): CommittedOffset(42, leader_epoch, "m", 99, expires, 0)}
    assert found.problems == []


def test_the_latest_wins_and_a_record_without_a_value_deletes(topic: Topic) -> None:
    for partition, offset in ((0, 1), (1, 2), (0, 3)):
        topic.add(key("g", partition), value(offset))
    topic.add(key("other", 0), value(9))
    topic.add(key("g", 1), None)
    found = topic.read()
    assert {name: commit.offset for name, commit in found.of_group("g").items()} == {TopicPartition("orders", 0): 3}
    assert found.group_names() == ["g", "other"]


def test_commits_in_transactions_count_when_committed(topic: Topic) -> None:
    topic.add(key("g", 0), value(1))
    for producer, partition in ((1, 0), (2, 1), (3, 2)):
        topic.add(key("g", partition), value(10 + producer), BATCH_TRANSACTIONAL, producer)
    assert topic.read().pending == 3
    topic.end(1, 1)
    topic.end(2, 0)
    found = topic.read()
    assert {name.partition: commit.offset for name, commit in found.of_group("g").items()} == {0: 11}
    assert found.pending == 1


def test_a_commit_outside_the_transaction_after_it_is_the_later_one(topic: Topic) -> None:
    topic.add(key("g", 0), value(10), BATCH_TRANSACTIONAL, 1)
    topic.add(key("g", 0), value(20))
    topic.end(1, 1)
    assert [commit.offset for commit in topic.read().offsets.values()] == [20]


def test_groups_are_described_and_newer_types_counted(topic: Topic) -> None:
    member = text("m-1") + struct.pack(">h", -1) + text("c") + text("/h") + struct.pack(">ii", 1, 2)
    member += struct.pack(">i", 3) + b"abc" + struct.pack(">i", 0)
    group = struct.pack(">h", 3) + text("consumer") + struct.pack(">i", 4) + text("range") + text("m-1")
    topic.add(b"\0\2" + text("g"), group + struct.pack(">qi", 77, 1) + member)
    topic.add(b"\0\2" + text("gone"), group + struct.pack(">qi", 77, 0))
    topic.add(b"\0\2" + text("gone"), None)
    topic.add(b"\0\3" + text("new"), b"")
    topic.add(b"\0\x63", b"")
    found = topic.read()
    assert found.groups == {"g": GroupMetadata("consumer", 4, "range", "m-1", 77, ("m-1",))}
    assert found.skipped == {"ConsumerGroupMetadata": 1, "type 99": 1}
    assert found.problems == []


@pytest.mark.parametrize(
    ("record_key", "record_value"),
    [
        (b"", b""),
        (b"\0\1\0", b""),
        (b"\0\1\xff\xff", b""),
        (key("g", 1)[:-1], value(1)),
        (key("g", 1), value(1)[:-1]),
        (key("g", 1), b"\0\x09" + value(1)[2:]),
        (key("g", 1), b"\0\4" + bytes(12) + b"\xff\xff\xff\xff\xff\xff"),
        (b"\0\2" + text("g"), b"\0\0" + text("c") + bytes(4) + text("p") + text("l") + b"\x7f\xff\xff\xff"),
    ],
    ids=lambda _: "",
)
def test_what_cannot_be_read_is_told_and_the_rest_read(topic: Topic, record_key: bytes, record_value: bytes) -> None:
    topic.add(record_key, record_value)
    position = len(topic.data)
    topic.add(record_key, record_value)
    topic.add(key("g", 0), value(5))
    found = topic.read()
    assert [problem.position for problem in found.problems] == [0, position]
    assert "record 1" in str(found.problems[1])
    assert [commit.offset for commit in found.offsets.values()] == [5]


def test_reading_goes_on_behind_a_segment_that_is_harmed(topic: Topic) -> None:
    topic.add(key("g", 0), value(5))
    whole = topic.data
    topic.add(key("g", 1), value(6))
    topic.data = topic.data[:-1] + b"\xff"
    (topic.path / f"{2:020d}.log").write_bytes(batch(record(0, 0, key("g", 2), value(7)), 1, base_offset=2) + bytes(99))
    found = topic.read()
    assert {name.partition: commit.offset for name, commit in found.of_group("g").items()} == {0: 5, 2: 7}
    assert [(problem.position, problem.path.endswith("0.log")) for problem in found.problems] == [(len(whole), True)]
