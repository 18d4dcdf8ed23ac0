"""Reads records by offset, by key or in log order, and follows a log that grows."""
