"""Replication between a master and its slaves."""
