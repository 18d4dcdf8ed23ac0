"""Checks a Kafka log: its batches, the files derived from them, and its small files. Nothing is
written."""

from logdex.jobs.findings import Finding, Info, VerifyReport
from logdex.kafka.verify.checks import CHECKS
from logdex.kafka.verify.verifier import log_size_bytes, verify

__all__ = ["CHECKS", "Finding", "Info", "VerifyReport", "log_size_bytes", "verify"]
