"""Recognising a Kafka directory, listing what it contains, and locking it."""
