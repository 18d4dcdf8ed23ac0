"""Kernels over Kafka's bytes."""
