"""Checks the IndexFiles of a store against its log."""
