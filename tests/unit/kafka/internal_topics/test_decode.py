"""Single records of the brokers' own topics as fields."""

from __future__ import annotations

import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdex.kafka.batch.record import Record
from logdex.kafka.internal_topics.decode import decode_record
from logdex.kafka.internal_topics.record_schemas import METADATA_RECORDS
from tests.unit.kafka.internal_topics.test_consumer_offsets import key, text, value

TOPIC_ID = uuid.UUID(int=1)
ENCODED_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def compact(words: str) -> bytes:
    return bytes([len(words) + 1]) + words.encode()


def numbers(*values: int) -> bytes:
    return bytes([len(values) + 1]) + struct.pack(f">{len(values)}i", *values)


COMMITTED = {"type": "OffsetCommit", "group": "g", "topic": "orders", "partition": 2}
TRANSACTION = struct.pack(">qhib", 7, 3, 60_000, 1)
TRANSACTION_FIELDS = {
    "producer_id": 7,
    "producer_epoch": 3,
    "transaction_timeout_ms": 60_000,
    "transaction_status": "Ongoing",
    "transaction_partitions": [{"topic": "t", "partition_ids": [0, 5]}],
    "transaction_last_update_timestamp_ms": 11,
    "transaction_start_timestamp_ms": 12,
}
CASES: dict[str, tuple[str, bytes | None, bytes | None, dict[str, Any]]] = {
    "commit": (
        *("__consumer_offsets", key("g", 2), value(41)),
        {**COMMITTED, "value": {"offset": 41, "leader_epoch": 7, "metadata": "m", "commit_timestamp_ms": 99}},
    ),
    "deleted commit": ("__consumer_offsets", key("g", 2), None, {**COMMITTED, "value": None}),
    "group without members": (
        *("__consumer_offsets", struct.pack(">h", 2) + text("g")),
        struct.pack(">h", 0) + text("consumer") + struct.pack(">i", 4) + text("range") + text("m-1") + bytes(4),
        {
            "type": "GroupMetadata",
            "group": "g",
            "value": {
                "protocol_type": "consumer",
                "generation": 4,
                "protocol": "range",
                "leader": "m-1",
                "members": [],
            },
        },
    ),
    "newer group": (
        *(
            "__consumer_offsets",
            struct.pack(">h", 3) + text("g"),
            struct.pack(">hi", 0, 8) + b"\1\0\x08" + bytes(7) + b"\5",
        ),
        {"type": "ConsumerGroupMetadata", "group": "g", "value": {"epoch": 8, "metadata_hash": 5}},
    ),
    "newer version": (
        *("__consumer_offsets", struct.pack(">h", 3) + text("g"), struct.pack(">hi", 1, 8)),
        {"type": "ConsumerGroupMetadata", "group": "g", "problem": "the value has version 1, but 0 to 0 are known"},
    ),
    "unknown": ("__consumer_offsets", struct.pack(">h", 99), b"", {"type": "type 99"}),
    "transaction": (
        *("__transaction_state", struct.pack(">h", 0) + text("tx")),
        struct.pack(">h", 0)
        + TRANSACTION
        + struct.pack(">i", 1)
        + text("t")
        + struct.pack(">i2i", 2, 0, 5)
        + struct.pack(">qq", 11, 12),
        {"type": "TransactionLog", "transactional_id": "tx", "value": TRANSACTION_FIELDS},
    ),
    "flexible transaction": (
        *("__transaction_state", struct.pack(">h", 0) + text("tx")),
        struct.pack(">h", 1)
        + TRANSACTION
        + b"\2"
        + compact("t")
        + numbers(0, 5)
        + b"\0"
        + struct.pack(">qq", 11, 12)
        + b"\0",
        {"type": "TransactionLog", "transactional_id": "tx", "value": TRANSACTION_FIELDS},
    ),
    "ended transaction": (
        *("__transaction_state", struct.pack(">h", 0) + text("tx"), None),
        {"type": "TransactionLog", "transactional_id": "tx", "value": None},
    ),
    "topic": (
        *("__cluster_metadata", None, b"\1\2\0" + compact("orders") + TOPIC_ID.bytes + b"\0"),
        {"type": "Topic", "version": 0, "name": "orders", "topic_id": ENCODED_ID},
    ),
    "partition": (
        *("__cluster_metadata", None),
        b"\1\3\0"
        + struct.pack(">i", 4)
        + TOPIC_ID.bytes
        + numbers(1, 2)
        + numbers(1)
        + numbers()
        + numbers()
        + struct.pack(">3i", 1, 8, 9)
        + b"\0",
        {
            "type": "Partition",
            "version": 0,
            "partition_id": 4,
            "topic_id": ENCODED_ID,
            "replicas": [1, 2],
            "isr": [1],
            "removing_replicas": [],
            "adding_replicas": [],
            "leader": 1,
            "leader_epoch": 8,
            "partition_epoch": 9,
        },
    ),
    "config": (
        *("__cluster_metadata", None, b"\1\4\0\2" + compact("orders") + compact("retention.ms") + b"\0\0"),
        {
            "type": "Config",
            "version": 0,
            "resource_type": "topic",
            "resource_name": "orders",
            "name": "retention.ms",
            "value": None,
        },
    ),
    "feature": (
        *("__cluster_metadata", None, b"\1\x0c\0" + compact("metadata.version") + struct.pack(">h", 25) + b"\0"),
        {"type": "FeatureLevel", "version": 0, "name": "metadata.version", "feature_level": 25},
    ),
    "no-op": ("__cluster_metadata", None, b"\1\x14\0\0", {"type": "NoOp", "version": 0}),
    "other frame": (
        *("__cluster_metadata", None, b"\2\x14\0\0"),
        {"type": None, "problem": "the frame has version 2, but 1 is known"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_decode(name: str) -> None:
    topic, record_key, record_value, fields = CASES[name]
    assert decode_record(topic, Record(record_key, record_value)) == fields


def test_records_of_other_topics_and_control_records_are_not_decoded() -> None:
    assert decode_record("orders", Record(b"k", b"v")) is None
    assert decode_record("orders", Record(b"\0\0\0\2", b"")) is None


@given(
    st.sampled_from(["__consumer_offsets", "__transaction_state", "__cluster_metadata"]),
    st.none() | st.binary(),
    st.none() | st.binary() | st.sampled_from([*METADATA_RECORDS]).map(lambda kind: bytes([1, kind, 0, 5])),
    st.binary(max_size=80),
)
def test_any_bytes_are_decoded_or_a_problem(topic: str, key: bytes | None, value: bytes | None, more: bytes) -> None:
    found = decode_record(topic, Record(key, None if value is None else value + more))
    assert found is not None
    assert "type" in found


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (b"\0\0\0\0", b"\0\0\0\0\0\7", {"type": "ABORT", "coordinator_epoch": 7}),
        (b"\0\0\0\1", b"\0\0\0\0\0\7", {"type": "COMMIT", "coordinator_epoch": 7}),
        (b"\0\0\0\2", b"", {"type": "LEADER_CHANGE"}),
        (b"\0\0\0\x63", None, {"type": "type 99"}),
    ],
)
@pytest.mark.parametrize("topic", ["orders", "__cluster_metadata"])
def test_control_records(topic: str, key: bytes, value: bytes | None, expected: dict[str, Any]) -> None:
    assert decode_record(topic, Record(key, value, is_control=True)) == expected


@pytest.mark.parametrize(("key", "value"), [(None, None), (b"\0\0\0\1", b"\0\0"), (b"\0\0\0", b"")])
def test_a_control_record_that_cannot_be_decoded(key: bytes | None, value: bytes | None) -> None:
    assert (decode_record("orders", Record(key, value, is_control=True)) or {})["problem"]
