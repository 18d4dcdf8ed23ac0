"""Recovers a damaged Kafka log: writes a clean directory with every whole batch, and reports what
it does not contain."""

from logdex.kafka.recover.job import recover
from logdex.kafka.recover.report import RecoverReport

__all__ = ["RecoverReport", "recover"]
