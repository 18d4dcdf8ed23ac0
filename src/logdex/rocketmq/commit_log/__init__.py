"""The CommitLog as files, and how a log can end."""
