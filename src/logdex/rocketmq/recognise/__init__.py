"""Recognises what is at a path, and whether it can be read."""
