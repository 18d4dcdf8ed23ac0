"""How commands show Kafka's logs."""
