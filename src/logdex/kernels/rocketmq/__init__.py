"""Kernels for RocketMQ's files."""
