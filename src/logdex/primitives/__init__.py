"""Scalar truth: the small functions that every kernel is held against."""
