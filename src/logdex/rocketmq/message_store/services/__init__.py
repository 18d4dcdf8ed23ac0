"""What an open store does beside putting and reading: it delivers delayed messages, ends
transactions, removes what is too old, and counts what it does."""
