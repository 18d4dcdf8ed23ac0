"""A segment: its .log, its offset index and time index, its transaction index."""
