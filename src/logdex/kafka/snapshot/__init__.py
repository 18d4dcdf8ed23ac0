"""The objects that `logdex.open` returns for Kafka: a read-only partition or log directory."""
