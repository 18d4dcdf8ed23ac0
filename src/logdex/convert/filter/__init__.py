"""Some of a log's messages as a new store or log directory of the same format: `logs.py` for Kafka,
`store.py` for RocketMQ."""
