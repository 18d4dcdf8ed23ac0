"""The source of a dispatch's query: a stream that has, for each log that has changed, one row with
the offsets at which a batch begins and ends. No message is read.

It has the offsets of the streams of `rocketmq_store` and `kafka_log`, and so their triggers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, InputPartition

from logdex.spark.sources import source_classes
from logdex.spark.sources.stream import OffsetReader
from logdex.spark.sources.stream_table import flat

SOURCE = "logdex_log_ends"
LOG_FORMAT = "logFormat"
"""The option that has the format of the log, by its name in the registry; all others are those of
the format's own source."""

Row = tuple[str, str, int, int]


class LogEndsSource(DataSource):
    """The offsets between which logs have grown, batch by batch."""

    @classmethod
    def name(cls) -> str:
        """Returns the name under which it is registered."""
        return SOURCE

    def schema(self) -> str:
        """Returns the columns: a log by its two names, and two offsets."""
        return "log string, part string, begin bigint, end bigint"

    def streamReader(self, schema: object) -> LogEndsReader:
        """Returns the reader of the stream."""
        options = {name: value for name, value in self.options.items() if name.lower() != LOG_FORMAT.lower()}
        log_format = next(value for name, value in self.options.items() if name.lower() == LOG_FORMAT.lower())
        return LogEndsReader(source_classes()[log_format].make_stream(options))


class LogEndsReader(OffsetReader):
    """Reads where a batch begins and ends."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns one partition, with all rows of the batch."""
        return [InputPartition(rows_between(start, end))]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Yields the rows of the batch."""
        yield from partition.value


def rows_between(start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    """Returns a row for each log whose offset is not the same at the start and at the end."""
    before = flat(start)
    return [
        (log, part, before.get((log, part), 0), offset)
        for (log, part), offset in flat(end).items()
        if before.get((log, part)) != offset
    ]
