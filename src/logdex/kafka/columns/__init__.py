"""Decodes records to Arrow columns, and encodes Arrow columns to record batches."""
