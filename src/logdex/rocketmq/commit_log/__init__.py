"""The files of a CommitLog, and the ways in which a log can end."""
