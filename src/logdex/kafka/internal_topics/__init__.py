"""What Kafka's own topics say: the offsets of consumer groups, the log of the quorum."""
