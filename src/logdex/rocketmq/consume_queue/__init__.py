"""The ConsumeQueue: one entry of 20 bytes per message of a queue."""
