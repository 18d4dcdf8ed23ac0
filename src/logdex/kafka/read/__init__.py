"""Reading records: by offset, by key, in order, and following a log that grows."""
