"""A store as tables: its messages, and what else is in it."""
