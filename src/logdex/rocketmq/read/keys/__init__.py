"""Finds messages by key: what the IndexFiles say, and what they do not cover."""
