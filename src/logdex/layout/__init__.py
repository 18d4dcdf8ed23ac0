"""The layout of every on-disk structure, stated once, by format."""
