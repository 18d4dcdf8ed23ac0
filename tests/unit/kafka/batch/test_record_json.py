"""Records as JSON: the names that the design fixes, and bytes that are no text."""

from __future__ import annotations

import json

from logdex.kafka.batch.record import Record, TimestampType
from logdex.kafka.batch.record_batch import decode_batch, encode_batch
from logdex.kafka.batch.record_json import record_to_json

FIELDS = [
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "is_control",
]


def test_all_fields_of_a_record_in_their_order() -> None:
    raw = encode_batch(
        [Record(b"\xff", None, 12, (("a", b"\x01"), ("a", None), (b"\xfe", b"")))],
        base_offset=70,
        leader_epoch=4,
        producer_id=5,
        producer_epoch=6,
        base_sequence=8,
        is_transactional=True,
    )
    (record,) = decode_batch(raw)[0].records()
    shown = record_to_json(record, topic="orders", partition=3)
    assert list(shown) == FIELDS
    assert json.loads(json.dumps(shown)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 70,
        "timestamp_ms": 12,
        "timestamp_type": "CreateTime",
        "key": "/w==",
        "value": None,
        "headers": [["a", "AQ=="], ["a", None], ["\\xfe", ""]],
        "leader_epoch": 4,
        "producer_id": 5,
        "producer_epoch": 6,
        "sequence": 8,
        "is_transactional": True,
        "is_control": False,
    }


def test_a_record_of_magic_0_has_no_timestamp() -> None:
    (record,) = decode_batch(encode_batch([Record(b"", b"v")], base_offset=1, magic=0))[0].records()
    shown = record_to_json(record, topic="t", partition=0)
    assert (shown["timestamp_ms"], shown["timestamp_type"]) == (-1, TimestampType.NO_TIMESTAMP_TYPE.value)
    assert (shown["key"], shown["value"], shown["sequence"]) == ("", "dg==", -1)
