"""The sink into Kafka log directories, through `Log`."""
