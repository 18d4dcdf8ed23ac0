"""A segment's indexes and its key index against its batches."""
