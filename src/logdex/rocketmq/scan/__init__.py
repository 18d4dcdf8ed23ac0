"""Scans a CommitLog's bytes into windows of columns, from which everything else is derived, and
finds where the log ends."""
