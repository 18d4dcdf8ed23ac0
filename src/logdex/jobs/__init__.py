"""What jobs over a directory share in both formats: tasks and their runners, staging and
publishing, findings, and reports."""
