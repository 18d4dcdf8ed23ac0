"""Spark's entrance to `rocketmq_store`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from logdex.spark.sources.rocketmq.stream import StoreStream
from logdex.spark.sources.rocketmq.table import SOURCE, StoreTable
from logdex.spark.sources.source import LogSource

if TYPE_CHECKING:
    from logdex.spark.sinks.rocketmq.sink import StoreSink


class RocketmqStoreSource(LogSource):
    """The messages of RocketMQ stores: ``spark.read.format("rocketmq_store").load(PATH)``. The
    guide to logs as DataFrames has all options."""

    @classmethod
    def name(cls) -> str:
        """Returns the name of the format."""
        return SOURCE

    @staticmethod
    def make_table(options: Mapping[str, str]) -> StoreTable:
        """Returns what a DataFrame reads."""
        return StoreTable(options)

    @staticmethod
    def make_stream(options: Mapping[str, str]) -> StoreStream:
        """Returns what a stream reads."""
        return StoreStream(options)

    @staticmethod
    def make_sink(options: Mapping[str, str], columns: tuple[str, ...]) -> StoreSink:
        """Returns what rows with some columns are appended to. Readers do without the engine that
        writes."""
        from logdex.spark.sinks.rocketmq.sink import StoreSink

        return StoreSink(options, columns)
