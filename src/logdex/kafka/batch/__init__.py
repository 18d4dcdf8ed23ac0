"""One record batch of any magic, and one record."""
