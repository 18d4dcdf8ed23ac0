"""Kernels for Kafka's files."""
