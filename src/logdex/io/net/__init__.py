"""TCP connections."""
