"""Kernels over RocketMQ's bytes."""
