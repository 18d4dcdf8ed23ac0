"""Reading messages: by queue, by key, in the order of the log."""
