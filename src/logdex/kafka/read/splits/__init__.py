"""One split of a read plan: where a segment is cut into splits, and how a split is read, again if
need be."""
