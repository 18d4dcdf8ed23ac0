"""What `logdex.open` gives of Kafka's: a partition or a log directory, read-only."""
