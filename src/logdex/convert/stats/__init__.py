"""Figures of a log: messages and bytes by topic, queue, hour and key, and the lag of consumer
groups."""

from logdex.convert.stats.job import stats
from logdex.convert.stats.report import StatsReport

__all__ = ["StatsReport", "stats"]
