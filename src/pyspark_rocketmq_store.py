"""Spark imports every module named ``pyspark_…`` and offers its `DefaultSource` as a format."""

from logdex.spark.sources.rocketmq.source import RocketmqStoreSource as DefaultSource

__all__ = ["DefaultSource"]
