"""What all jobs over a directory share, whatever the format: tasks and what runs them, staging and
publishing, findings, reports."""
