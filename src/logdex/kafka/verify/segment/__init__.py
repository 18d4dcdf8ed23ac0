"""One pass over a segment: its batch headers, its records, the order of offsets."""
