"""Recovering a damaged Kafka log: a clean directory of every whole batch, and a report of what is not in it."""

from logdex.kafka.recover.job import recover
from logdex.kafka.recover.report import RecoverReport

__all__ = ["RecoverReport", "recover"]
