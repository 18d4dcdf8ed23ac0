"""The dispatch of a log as a Structured Streaming query, whose batches are the steps."""
