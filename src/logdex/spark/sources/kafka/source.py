"""Spark's entrance to `kafka_log`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdex.spark.sources.kafka.stream import LogDirStream
from logdex.spark.sources.kafka.table import SOURCE, LogDirTable
from logdex.spark.sources.source import LogSource

if TYPE_CHECKING:
    from logdex.spark.sinks.kafka.sink import LogDirSink


class KafkaLogSource(LogSource):
    """The records of Kafka log directories: ``spark.read.format("kafka_log").load(PATH)``. The
    guide to logs as DataFrames has all options."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return SOURCE

    @staticmethod
    def make_table(options: Mapping[str, str]) -> LogDirTable:
        """Returns what a DataFrame reads."""
        return LogDirTable(options)

    @staticmethod
    def make_stream(options: Mapping[str, str]) -> LogDirStream:
        """Returns what a stream reads."""
        return LogDirStream(options)

    @staticmethod
    def make_sink(options: Mapping[str, str], columns: tuple[str, ...]) -> LogDirSink:
        """Returns what rows with some columns are appended to. Readers do without the engine that
        writes."""
        from logdex.spark.sinks.kafka.sink import LogDirSink

        return LogDirSink(options, columns)
