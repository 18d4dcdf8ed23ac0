"""Named readers of a partition, whose positions are kept beside its segments."""
