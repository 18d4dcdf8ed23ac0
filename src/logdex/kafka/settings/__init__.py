"""The settings of a log, which no file states."""
