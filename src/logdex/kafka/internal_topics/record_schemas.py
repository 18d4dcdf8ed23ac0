"""The records of the brokers' own topics, as schemas of `message_schema`.

Source: the message definitions of Kafka 4.4.0 (CoordinatorRecordType, MetadataRecordType and their
kin). Tests compare all of them with the definitions in Kafka's jars.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from logdex.kafka.internal_topics.message_reader import MessageReader
from logdex.kafka.internal_topics.message_schema import parse_schema, read_message


class RecordSchema(NamedTuple):
    """A type of record. The value has versions up to `version_max`, flexible ones from
    `flexible_since` on. Keys are never flexible."""

    name: str
    key: str
    value: str
    version_max: int = 0
    flexible_since: int = 0

    def read_key(self, reader: MessageReader) -> dict[str, Any]:
        """Reads the fields of the key behind its version. Raises `ValueError`."""
        return read_message(reader, parse_schema(self.key), 0)

    def read_fields(self, reader: MessageReader, version: int) -> dict[str, Any]:
        """Reads the fields of the value behind its version. Raises `ValueError` if the version is
        not known or the bytes do not fit it."""
        if not 0 <= version <= self.version_max:
            raise ValueError(f"the value has version {version}, but 0 to {self.version_max} are known")
        reader.flexible = version >= self.flexible_since
        return read_message(reader, parse_schema(self.value), version)

    def read_value(self, data: bytes) -> tuple[int, dict[str, Any]]:
        """Returns the version of a value that begins with it, and its fields. Raises
        `ValueError`."""
        reader = MessageReader(data)
        version = reader.integer(2)
        return version, self.read_fields(reader, version)


_GROUP = "group string"
_MEMBER = "group string, member_id string"
_PARTITIONS = "topic_id uuid, partitions [int32]"
_OWNED = f"[{{{_PARTITIONS}, assignment_epochs ?[int32] #0}}]"
_NAMED = "topic_id uuid, topic_name string"
_TASKS = "[{subtopology_id string, partitions [int32]}]"
_OWNED_TASKS = "[{subtopology_id string, partitions [int32], assignment_epochs ?[int32] #0}]"
_PAIRS = "[{key string, value string}]"
_TOPICS = f"[{{name string, partitions int32, replication_factor int16, topic_configs {_PAIRS}}}]"
_CLIENT = "client_id string, client_host string"
_EPOCHS = "member_epoch int32, previous_member_epoch int32, state int8"
_TARGET = "assignment_epoch int32, assignment_timestamp_ms int64 #0"

_COMMIT_KEY = "group string, topic string, partition int32"

OFFSET_COMMIT = RecordSchema(
    "OffsetCommit",
    _COMMIT_KEY,
    "offset int64, leader_epoch int32 @3, metadata string, commit_timestamp_ms int64, expire_timestamp_ms int64 @1-1, "
    "topic_id uuid @4 #0",
    version_max=4,
    flexible_since=4,
)
GROUP_METADATA = RecordSchema(
    "GroupMetadata",
    _GROUP,
    "protocol_type string, generation int32, protocol ?string, leader ?string, current_state_timestamp_ms int64 @2, "
    f"members [{{member_id string, group_instance_id ?string @3, {_CLIENT}, rebalance_timeout_ms int32 @1, "
    "session_timeout_ms int32, subscription bytes, assignment bytes}]",
    version_max=4,
    flexible_since=4,
)
GROUP_RECORDS = {
    0: OFFSET_COMMIT,
    1: OFFSET_COMMIT,
    2: GROUP_METADATA,
    3: RecordSchema("ConsumerGroupMetadata", _GROUP, "epoch int32, metadata_hash int64 #0"),
    4: RecordSchema(
        "ConsumerGroupPartitionMetadata",
        _GROUP,
        f"topics [{{{_NAMED}, num_partitions int32, partition_metadata [{{partition int32, racks [string]}}]}}]",
    ),
    5: RecordSchema(
        "ConsumerGroupMemberMetadata",
        _MEMBER,
        f"instance_id ?string, rack_id ?string, {_CLIENT}, subscribed_topic_names [string], "
        "subscribed_topic_regex ?string, rebalance_timeout_ms int32, server_assignor ?string, classic_member_metadata "
        "?{session_timeout_ms int32, supported_protocols [{name string, metadata bytes}]} #0",
    ),
    6: RecordSchema("ConsumerGroupTargetAssignmentMetadata", _GROUP, _TARGET),
    7: RecordSchema("ConsumerGroupTargetAssignmentMember", _MEMBER, f"topic_partitions [{{{_PARTITIONS}}}]"),
    8: RecordSchema(
        "ConsumerGroupCurrentMemberAssignment",
        _MEMBER,
        f"{_EPOCHS}, assigned_partitions {_OWNED}, partitions_pending_revocation {_OWNED}",
    ),
    10: RecordSchema(
        "ShareGroupMemberMetadata", _MEMBER, f"rack_id ?string, {_CLIENT}, subscribed_topic_names [string]"
    ),
    11: RecordSchema("ShareGroupMetadata", _GROUP, "epoch int32, metadata_hash int64"),
    12: RecordSchema("ShareGroupTargetAssignmentMetadata", _GROUP, _TARGET),
    13: RecordSchema("ShareGroupTargetAssignmentMember", _MEMBER, f"topic_partitions [{{{_PARTITIONS}}}]"),
    14: RecordSchema(
        "ShareGroupCurrentMemberAssignment", _MEMBER, f"{_EPOCHS}, assigned_partitions [{{{_PARTITIONS}}}]"
    ),
    15: RecordSchema(
        "ShareGroupStatePartitionMetadata",
        _GROUP,
        f"initializing_topics [{{{_NAMED}, partitions [int32]}}], initialized_topics [{{{_NAMED}, "
        f"partitions [int32]}}], deleting_topics [{{{_NAMED}}}]",
    ),
    16: RecordSchema(
        "ConsumerGroupRegularExpression",
        f"{_GROUP}, regular_expression string",
        "topics [string], version int64, timestamp_ms int64",
    ),
    17: RecordSchema(
        "StreamsGroupMetadata",
        _GROUP,
        f"epoch int32, metadata_hash int64, validated_topology_epoch int32 #0, last_assignment_configs ?{_PAIRS} #1, "
        "stored_description_topology_epoch int32 #2, failed_description_topology_epoch int32 #3",
    ),
    19: RecordSchema(
        "StreamsGroupMemberMetadata",
        _MEMBER,
        f"instance_id ?string, rack_id ?string, {_CLIENT}, rebalance_timeout_ms int32, topology_epoch int32, "
        f"process_id string, user_endpoint ?{{host string, port uint16}}, client_tags {_PAIRS}",
    ),
    20: RecordSchema("StreamsGroupTargetAssignmentMetadata", _GROUP, _TARGET),
    21: RecordSchema(
        "StreamsGroupTargetAssignmentMember",
        _MEMBER,
        f"active_tasks {_TASKS}, standby_tasks {_TASKS}, warmup_tasks {_TASKS}",
    ),
    22: RecordSchema(
        "StreamsGroupCurrentMemberAssignment",
        _MEMBER,
        f"{_EPOCHS}, active_tasks {_OWNED_TASKS}, standby_tasks {_OWNED_TASKS}, warmup_tasks {_OWNED_TASKS}, "
        f"active_tasks_pending_revocation {_OWNED_TASKS}, standby_tasks_pending_revocation {_OWNED_TASKS}, "
        f"warmup_tasks_pending_revocation {_OWNED_TASKS}",
    ),
    23: RecordSchema(
        "StreamsGroupTopology",
        _GROUP,
        "epoch int32, subtopologies [{subtopology_id string, source_topics [string], source_topic_regex [string], "
        f"state_changelog_topics {_TOPICS}, repartition_sink_topics [string], repartition_source_topics {_TOPICS}, "
        "copartition_groups [{source_topics [int16], source_topic_regex [int16], repartition_source_topics [int16]}]}]",
    ),
}
"""The records of `__consumer_offsets`, by key version. Those from 3 on are of newer protocols."""

_SHARED_PARTITION = "group string, topic_id uuid, partition int32"
_BATCHES = "[{first_offset int64, last_offset int64, delivery_state int8, delivery_count int16}]"

SHARE_STATE_RECORDS = {
    0: RecordSchema(
        "ShareSnapshot",
        _SHARED_PARTITION,
        "snapshot_epoch int32, state_epoch int32, leader_epoch int32, start_offset int64, delivery_complete_count "
        f"int32 #0, create_timestamp_ms int64, write_timestamp_ms int64, state_batches {_BATCHES}",
    ),
    1: RecordSchema(
        "ShareUpdate",
        _SHARED_PARTITION,
        "snapshot_epoch int32, leader_epoch int32, start_offset int64, delivery_complete_count int32 #0, "
        f"state_batches {_BATCHES}",
    ),
}
"""The records of `__share_group_state`, by key version."""

TRANSACTION_RECORDS = {
    0: RecordSchema(
        "TransactionLog",
        "transactional_id string",
        "producer_id int64, previous_producer_id int64 @1 #0, next_producer_id int64 @1 #1, producer_epoch int16, "
        "next_producer_epoch int16 @1 #3, transaction_timeout_ms int32, transaction_status int8, "
        "transaction_partitions ?[{topic string, partition_ids [int32]}], transaction_last_update_timestamp_ms int64, "
        "transaction_start_timestamp_ms int64, client_transaction_version int16 @1 #2",
        version_max=1,
        flexible_since=1,
    )
}
"""The records of `__transaction_state`, by key version."""

_BROKER_EPOCH = "broker_id int32, broker_epoch int64"
_ENDPOINTS = "[{name string, host string, port uint16, security_protocol int16}]"
_FEATURES = "[{name string, min_supported_version int16, max_supported_version int16}]"

METADATA_RECORDS = {
    kind: RecordSchema(name, "", value, version_max)
    for kind, name, version_max, value in (
        (
            *(0, "RegisterBroker", 4),
            "broker_id int32, is_migrating_zk_broker bool @2, incarnation_id uuid, broker_epoch int64, "
            f"end_points {_ENDPOINTS}, features {_FEATURES}, rack ?string, fenced bool, in_controlled_shutdown bool "
            "@1, log_dirs [uuid] @3 #0, cordoned_log_dirs ?[uuid] @4 #1",
        ),
        (1, "UnregisterBroker", 0, _BROKER_EPOCH),
        (2, "Topic", 0, "name string, topic_id uuid"),
        (
            *(3, "Partition", 2),
            "partition_id int32, topic_id uuid, replicas [int32], isr [int32], removing_replicas [int32], "
            "adding_replicas [int32], leader int32, leader_recovery_state int8 #0, leader_epoch int32, "
            "partition_epoch int32, directories [uuid] @1, eligible_leader_replicas ?[int32] @2 #1, "
            "last_known_elr ?[int32] @2 #2",
        ),
        (4, "Config", 0, "resource_type int8, resource_name string, name string, value ?string"),
        (
            *(5, "PartitionChange", 2),
            "partition_id int32, topic_id uuid, isr ?[int32] #0, leader int32 #1, replicas ?[int32] #2, "
            "removing_replicas ?[int32] #3, adding_replicas ?[int32] #4, leader_recovery_state int8 #5, "
            "directories ?[uuid] @1 #8, eligible_leader_replicas ?[int32] @2 #6, last_known_elr ?[int32] @2 #7",
        ),
        (7, "FenceBroker", 0, "id int32, epoch int64"),
        (8, "UnfenceBroker", 0, "id int32, epoch int64"),
        (9, "RemoveTopic", 0, "topic_id uuid"),
        (
            *(10, "DelegationToken", 0),
            "owner string, requester string, renewers [string], issue_timestamp_ms int64, max_timestamp_ms int64, "
            "expiration_timestamp_ms int64, token_id string",
        ),
        (
            *(11, "UserScramCredential", 0),
            "name string, mechanism int8, salt bytes, stored_key bytes, server_key bytes, iterations int32",
        ),
        (12, "FeatureLevel", 0, "name string, feature_level int16"),
        (
            *(14, "ClientQuota", 0),
            "entity [{entity_type string, entity_name ?string}], key string, value float64, remove bool",
        ),
        (15, "ProducerIds", 0, f"{_BROKER_EPOCH}, next_producer_id int64"),
        (
            *(17, "BrokerRegistrationChange", 3),
            f"{_BROKER_EPOCH}, fenced int8 #0, in_controlled_shutdown int8 @1 #1, log_dirs [uuid] @2 #2, "
            "cordoned_log_dirs ?[uuid] @3 #3",
        ),
        (
            *(18, "AccessControlEntry", 0),
            "id uuid, resource_type int8, resource_name string, pattern_type int8, principal string, host string, "
            "operation int8, permission_type int8",
        ),
        (19, "RemoveAccessControlEntry", 0, "id uuid"),
        (20, "NoOp", 0, ""),
        (21, "ZkMigrationState", 0, "zk_migration_state int8"),
        (22, "RemoveUserScramCredential", 0, "name string, mechanism int8"),
        (23, "BeginTransaction", 0, "name ?string #0"),
        (24, "EndTransaction", 0, ""),
        (25, "AbortTransaction", 0, "reason ?string #0"),
        (26, "RemoveDelegationToken", 0, "token_id string"),
        (
            *(27, "RegisterController", 0),
            f"controller_id int32, incarnation_id uuid, zk_migration_ready bool, end_points {_ENDPOINTS}, "
            f"features {_FEATURES}",
        ),
        (28, "ClearElr", 0, "topic_name string"),
        (29, "UnregisterController", 0, "controller_id int32"),
    )
}
"""The data records of `__cluster_metadata`, by number. All versions are flexible."""

_VOTERS = "[{voter_id int32, directory_id uuid @1}]"
_FEATURE = "{min_supported_version int16, max_supported_version int16}"
_ANY_VERSION = (1 << 15) - 1
_MARKER = "coordinator_epoch int32"

CONTROL_RECORDS = {
    0: RecordSchema("abort", "", _MARKER, _ANY_VERSION, _ANY_VERSION + 1),
    1: RecordSchema("commit", "", _MARKER, _ANY_VERSION, _ANY_VERSION + 1),
    2: RecordSchema("leader-change", "", f"leader_id int32, voters {_VOTERS}, granting_voters {_VOTERS}", 1),
    3: RecordSchema("snapshot-header", "", "last_contained_log_timestamp_ms int64"),
    4: RecordSchema("snapshot-footer", "", ""),
    5: RecordSchema("kraft-version", "", "kraft_version int16"),
    6: RecordSchema(
        "kraft-voters",
        "",
        "voters [{voter_id int32, directory_id uuid, endpoints [{name string, host string, port uint16}], "
        f"kraft_version_feature {_FEATURE}}}]",
    ),
}
"""The control records, by type. As in Kafka, a marker of a newer version is read as one of version
0."""
