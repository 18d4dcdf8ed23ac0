"""Checking a Kafka log: its batches, what is derived from them, its small files. Nothing is written."""

from logdex.jobs.findings import Finding, Info, VerifyReport
from logdex.kafka.verify.checks import CHECKS
from logdex.kafka.verify.verifier import log_size_bytes, verify

__all__ = ["CHECKS", "Finding", "Info", "VerifyReport", "log_size_bytes", "verify"]
