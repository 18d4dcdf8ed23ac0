"""Reading one part of a CommitLog file for a plan."""
