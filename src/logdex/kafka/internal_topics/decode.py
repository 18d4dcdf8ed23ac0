"""Single records of the brokers' own topics as fields: `__consumer_offsets`, `__transaction_state`
and `__cluster_metadata`.

Source: ``docs/formats/kafka-consumer-offsets.md``; Kafka's CoordinatorRecordType,
TransactionLogKey and -Value, TransactionState, MetadataRecordType, MetadataRecordSerde.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from logdex.kafka.batch.record import Record
from logdex.kafka.files.metadata_files import uuid_to_text
from logdex.kafka.internal_topics import cluster_metadata, consumer_offsets
from logdex.kafka.internal_topics.message_reader import MessageReader

TRANSACTION_STATE = "__transaction_state"
_TRANSACTION_FLEXIBLE_SINCE = 1
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
METADATA_RECORDS = {
    0: "RegisterBroker",
    1: "UnregisterBroker",
    2: "Topic",
    3: "Partition",
    4: "Config",
    5: "PartitionChange",
    7: "FenceBroker",
    8: "UnfenceBroker",
    9: "RemoveTopic",
    10: "DelegationToken",
    11: "UserScramCredential",
    12: "FeatureLevel",
    14: "ClientQuota",
    15: "ProducerIds",
    16: "RemoveDelegationToken",
    17: "BrokerRegistrationChange",
    18: "AccessControlEntry",
    19: "RemoveAccessControlEntry",
    20: "NoOp",
    21: "ZkMigrationState",
    22: "RemoveUserScramCredential",
    23: "BeginTransaction",
    24: "EndTransaction",
    25: "AbortTransaction",
    26: "RegisterController",
    27: "ClearElr",
}
"""The data records of the quorum's log by number. The fields of those in `_METADATA` are
decoded."""

Fields = dict[str, Any]


def decode_record(topic: str, record: Record) -> Fields | None:
    """Returns the fields of a record of one of the brokers' topics, with its `type`; None for a
    record of another topic, and for control records. What cannot be decoded has a `problem`
    instead."""
    decode = _TOPICS.get(topic)
    if decode is None or record.is_control:
        return None
    try:
        return decode(record)
    except ValueError as error:
        return {"type": None, "problem": str(error)}


def _of_consumer_offsets(record: Record) -> Fields:
    key = MessageReader(record.key or b"")
    kind = key.integer(2)
    if kind in consumer_offsets.OFFSET_COMMIT:
        place = {"group": key.text(), "topic": key.text(), "partition": key.integer(4)}
        commit = None
        if record.value is not None:
            commit = consumer_offsets.committed_offset(record.value, record.offset)._asdict()
            del commit["record_offset"]
        return {"type": "OffsetCommit", **place, "value": commit}
    if kind == consumer_offsets.GROUP_METADATA:
        group = key.text()
        value = None if record.value is None else consumer_offsets.group_metadata(record.value)._asdict()
        if value is not None:
            value["members"] = list(value["members"])
        return {"type": "GroupMetadata", "group": group, "value": value}
    name = consumer_offsets.RECORD_TYPES.get(kind)
    return {"type": name or f"type {kind}", **({} if name is None else {"group": key.text()})}


def _of_transaction_state(record: Record) -> Fields:
    key = MessageReader(record.key or b"")
    version = key.integer(2)
    if version != 0:
        return {"type": f"type {version}"}
    transactional_id = key.text()
    value = None if record.value is None else _transaction(record.value)
    return {"type": "TransactionLog", "transactional_id": transactional_id, "value": value}


def _transaction(data: bytes) -> Fields:
    reader = MessageReader(data)
    reader.flexible = reader.integer(2) >= _TRANSACTION_FLEXIBLE_SINCE
    fields: Fields = {"producer_id": reader.integer(8), "producer_epoch": reader.integer(2)}
    fields["timeout_ms"], state = reader.integer(4), reader.integer(1)
    fields["state"] = TRANSACTION_STATES.get(state, f"state {state}")
    fields["partitions"] = {}
    for _ in range(reader.array_size()):
        topic = reader.text()
        fields["partitions"][topic] = [reader.integer(4) for _ in range(reader.array_size())]
        reader.skip_tagged_fields()
    fields["last_update_timestamp_ms"], fields["start_timestamp_ms"] = reader.integer(8), reader.integer(8)
    return fields


def _of_cluster_metadata(record: Record) -> Fields:
    reader = MessageReader(record.value or b"", flexible=True)
    frame = reader.unsigned_varint()
    if frame != 1:
        raise ValueError(f"the frame has version {frame}, but 1 is known")
    kind, version = reader.unsigned_varint(), reader.unsigned_varint()
    read = _METADATA.get(kind)
    fields = {} if read is None else read(reader)
    return {"type": METADATA_RECORDS.get(kind, f"type {kind}"), "version": version, **fields}


def _topic(reader: MessageReader) -> Fields:
    return {"name": reader.text(), "topic_id": uuid_to_text(reader.uuid())}


def _remove_topic(reader: MessageReader) -> Fields:
    return {"topic_id": uuid_to_text(reader.uuid())}


def _partition(reader: MessageReader) -> Fields:
    fields: Fields = {"partition": reader.integer(4), "topic_id": uuid_to_text(reader.uuid())}
    for name in ("replicas", "isr", "removing_replicas", "adding_replicas"):
        fields[name] = [reader.integer(4) for _ in range(reader.array_size())]
    names = ("leader", "leader_epoch", "partition_epoch")
    return fields | {name: reader.integer(4) for name in names}


def _config(reader: MessageReader) -> Fields:
    kind = reader.integer(1)
    return {
        "resource_type": {2: "topic", 4: "broker"}.get(kind, kind),
        "resource_name": reader.text(),
        "name": reader.text(),
        "value": reader.string(),
    }


def _feature_level(reader: MessageReader) -> Fields:
    return {"name": reader.text(), "level": reader.integer(2)}


def _producer_ids(reader: MessageReader) -> Fields:
    return {"broker_id": reader.integer(4), "broker_epoch": reader.integer(8), "next_producer_id": reader.integer(8)}


_METADATA: Mapping[int, Callable[[MessageReader], Fields]] = {
    2: _topic,
    3: _partition,
    4: _config,
    9: _remove_topic,
    12: _feature_level,
    15: _producer_ids,
}
_TOPICS: Mapping[str, Callable[[Record], Fields]] = {
    consumer_offsets.TOPIC: _of_consumer_offsets,
    TRANSACTION_STATE: _of_transaction_state,
    cluster_metadata.TOPIC: _of_cluster_metadata,
}
