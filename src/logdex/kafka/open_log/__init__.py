"""What `logdex.kafka.Log` is made of: a partition's directory, open for writing."""
