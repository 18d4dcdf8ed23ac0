"""The IndexFile: a hash table on disk from the hash of a key to physical offsets."""
