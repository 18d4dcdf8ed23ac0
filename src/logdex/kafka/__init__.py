"""Kafka's log: segments, sparse indexes, recovery. Terms are Kafka's; `docs/formats` has the bytes."""
