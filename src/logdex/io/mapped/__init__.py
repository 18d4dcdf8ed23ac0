"""Files mapped into memory, and the guard that lets the process survive bytes that cannot be
read."""
