"""The dispatch of a log directory that a broker writes: indexes in another directory, which follow
the logs."""
