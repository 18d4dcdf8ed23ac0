"""Small scalar functions in plain Python: the reference that every kernel is tested against."""
