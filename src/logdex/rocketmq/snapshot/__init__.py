"""A store opened read-only, and what `info` shows of it."""
