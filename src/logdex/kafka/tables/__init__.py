"""A Kafka log as tables: its records, and what else is in it."""
