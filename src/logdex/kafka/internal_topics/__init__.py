"""What Kafka's own topics say: the offsets of consumer groups, the log of the quorum."""

INTERNAL_TOPICS = frozenset(
    {"__cluster_metadata", "__consumer_offsets", "__remote_log_metadata", "__share_group_state", "__transaction_state"}
)
"""What brokers keep for themselves. Source: Kafka's Topic, TopicBasedRemoteLogMetadataManagerConfig."""
