"""Finds the version that wrote a store and the sizes of its files, from settings and from the
files."""
