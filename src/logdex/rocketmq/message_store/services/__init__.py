"""What an open store does beside putting and reading: it delivers delayed messages, and ends
transactions."""
