"""What is above both formats: a log as a table, and conversions from one kind of data to
another."""
