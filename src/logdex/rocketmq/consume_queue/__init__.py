"""The ConsumeQueue: 20 bytes for each message of a queue."""
