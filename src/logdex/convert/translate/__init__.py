"""RocketMQ's messages as Kafka's records and back: topics, queues and partitions, keys, tags and
properties, headers, times, committed offsets."""

from logdex.convert.report import ConvertReport
from logdex.convert.translate.job import convert

__all__ = ["ConvertReport", "convert"]
