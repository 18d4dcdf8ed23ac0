"""Arrow batches as text, in bulk."""
