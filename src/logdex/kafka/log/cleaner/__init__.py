"""Compaction: of every key the last record stays."""
