"""`Log`: one partition, written and read. This is Kafka's writing engine."""
