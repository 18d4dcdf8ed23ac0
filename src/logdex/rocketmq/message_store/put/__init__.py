"""Putting messages: what a caller gives, the engine's checks, the bytes, the CommitLog's files."""
