"""Recovers a damaged store: writes a clean one with every whole message, and reports what it does
not contain."""

from logdex.rocketmq.recover.job import recover
from logdex.rocketmq.recover.report import RecoverReport

__all__ = ["RecoverReport", "recover"]
