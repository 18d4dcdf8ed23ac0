"""The output of commands for Kafka's logs."""
