"""Kafka's writing engine: `Log` is one partition, open for appending and reading."""
