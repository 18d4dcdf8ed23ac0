"""What is told of a log, not read from it."""
