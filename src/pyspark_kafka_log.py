"""Spark imports every module named ``pyspark_…`` and offers its `DefaultSource` as a format."""

from logdex.spark.sources.kafka.source import KafkaLogSource as DefaultSource

__all__ = ["DefaultSource"]
