"""The small files of a store, and the paths below its root."""
