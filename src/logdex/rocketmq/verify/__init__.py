"""Checks a store: its log, its indexes against the log and the log against its indexes, and its
small files. Nothing is written."""

from logdex.jobs.findings import Finding, Info, VerifyReport
from logdex.rocketmq.verify.checks import CHECKS
from logdex.rocketmq.verify.verifier import verify

__all__ = ["CHECKS", "Finding", "Info", "VerifyReport", "verify"]
