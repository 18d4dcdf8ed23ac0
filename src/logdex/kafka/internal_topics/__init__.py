"""Reads Kafka's internal topics: committed offsets of consumer groups, the log of the KRaft
quorum."""

INTERNAL_TOPICS = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__remote_log_metadata", "__share_group_state", "__transaction_state"}
)
"""The topics that brokers keep for themselves. Source: Kafka's Topic,
TopicBasedRemoteLogMetadataManagerConfig."""
