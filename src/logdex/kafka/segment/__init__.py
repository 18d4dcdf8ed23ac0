"""A segment: its .log, its sparse indexes, its transaction index."""
