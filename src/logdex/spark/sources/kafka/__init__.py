"""The source `kafka_log`: records of Kafka log directories as rows."""
