"""Which engine wrote a store and which sizes its files have, from settings and from the files."""
