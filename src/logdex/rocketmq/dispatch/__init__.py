"""The dispatch of a log that somebody else writes: ConsumeQueues and IndexFiles in another
directory, which follow the log."""
