"""Record batches of every magic, and single records."""
