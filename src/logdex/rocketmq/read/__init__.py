"""Reads messages by queue, by key or in log order."""
