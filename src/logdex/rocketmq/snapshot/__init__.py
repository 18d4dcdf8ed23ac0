"""A store opened read-only, and the overview that `info` shows."""
