"""Single records of the brokers' own topics as fields: `__consumer_offsets`, `__transaction_state`,
`__share_group_state` and `__cluster_metadata`; and control records, in whatever topic.

Source: ``docs/formats/kafka-consumer-offsets.md``; Kafka's CoordinatorRecordType,
TransactionState, ConfigResource, MetadataRecordSerde.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logdex.kafka.batch.record import Record
from logdex.kafka.internal_topics import cluster_metadata, consumer_offsets
from logdex.kafka.internal_topics.message_reader import MessageReader
from logdex.kafka.internal_topics.record_schemas import (
    GROUP_RECORDS,
    METADATA_RECORDS,
    SHARE_STATE_RECORDS,
    TRANSACTION_RECORDS,
    RecordSchema,
)
from logdex.layout.kafka import CONTROL_ABORT, CONTROL_COMMIT

TRANSACTION_STATES = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
CONTROL_TYPES = {
    CONTROL_ABORT: "ABORT",
    CONTROL_COMMIT: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
RESOURCE_TYPES = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
_WORDS = {"TransactionLog": ("transaction_status", TRANSACTION_STATES), "Config": ("resource_type", RESOURCE_TYPES)}
"""The fields whose numbers have names."""
_KEYED: Mapping[str, Mapping[int, RecordSchema]] = {
    consumer_offsets.TOPIC: GROUP_RECORDS,
    "__transaction_state": TRANSACTION_RECORDS,
    "__share_group_state": SHARE_STATE_RECORDS,
}

Fields = dict[str, Any]


def decode_record(topic: str, record: Record) -> Fields | None:
    """Returns the fields of a record of one of the brokers' topics, or of a control record, with
    its `type`; None for any other record. Where something cannot be decoded, there is a
    `problem`."""
    if record.is_control:
        return _of_control(record)
    if topic in _KEYED:
        return _keyed(_KEYED[topic], record)
    return _of_cluster_metadata(record) if topic == cluster_metadata.TOPIC else None


def _of_control(record: Record) -> Fields:
    fields: Fields = {"type": None}
    try:
        key = MessageReader(record.key or b"")
        key.integer(2)  # its version
        kind = key.integer(2)
        fields["type"] = CONTROL_TYPES.get(kind, f"type {kind}")
        if kind in (CONTROL_ABORT, CONTROL_COMMIT):
            value = MessageReader(record.value or b"")
            value.integer(2)  # its version
            fields["coordinator_epoch"] = value.integer(4)
    except ValueError as error:
        fields["problem"] = str(error)
    return fields


def _keyed(schemas: Mapping[int, RecordSchema], record: Record) -> Fields:
    fields: Fields = {"type": None}
    try:
        key = MessageReader(record.key or b"")
        kind = key.integer(2)
        schema = schemas.get(kind)
        fields["type"] = f"type {kind}" if schema is None else schema.name
        if schema is not None:
            fields |= schema.read_key(key)
            fields["value"] = None
            if record.value is not None:
                fields["value"] = _in_words(schema.name, schema.read_value(record.value)[1])
    except ValueError as error:
        fields.pop("value", None)
        fields["problem"] = str(error)
    return fields


def _of_cluster_metadata(record: Record) -> Fields:
    fields: Fields = {"type": None}
    try:
        reader = MessageReader(record.value or b"", flexible=True)
        frame = reader.unsigned_varint()
        if frame != 1:
            raise ValueError(f"the frame has version {frame}, but 1 is known")
        kind, version = reader.unsigned_varint(), reader.unsigned_varint()
        schema = METADATA_RECORDS.get(kind)
        fields = {"type": f"type {kind}" if schema is None else schema.name, "version": version}
        if schema is not None:
            fields |= _in_words(schema.name, schema.read_fields(reader, version))
    except ValueError as error:
        fields["problem"] = str(error)
    return fields


def _in_words(type_name: str, fields: Fields) -> Fields:
    """Replaces a number by its name where there is one."""
    name, words = _WORDS.get(type_name, ("", {}))
    return {**fields, name: words.get(fields[name], fields[name])} if name else fields
