"""Rebuilding the ConsumeQueues and IndexFiles of a store from its CommitLog alone."""

from logdex.rocketmq.rebuild.job import rebuild_on
from logdex.rocketmq.rebuild.local import rebuild
from logdex.rocketmq.rebuild.report import RebuildReport

__all__ = ["RebuildReport", "rebuild", "rebuild_on"]
