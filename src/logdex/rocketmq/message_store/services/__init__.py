"""What an open store does beside putting and reading: it delivers delayed messages, ends
transactions, and removes what is too old."""
