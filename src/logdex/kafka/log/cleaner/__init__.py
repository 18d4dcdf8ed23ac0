"""Compaction: keeps the last record of every key."""
