"""Scans a segment's bytes into windows of batch columns, from which everything else is derived."""
