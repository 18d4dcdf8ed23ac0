"""Logdex: RocketMQ's and Kafka's storage engines in Python."""

__version__ = "0.1.0"
