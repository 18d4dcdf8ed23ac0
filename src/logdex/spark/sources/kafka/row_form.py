"""What a row of `kafka_log` is: a record, or a batch as it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from logdex.convert.columns.kafka import BATCH_COLUMNS, COLUMNS, HEADERS, NAMES
from logdex.convert.columns.projection import SourceColumn
from logdex.errors import UsageError
from logdex.spark.sources.options import Options

RAW = "rawBatches"
_OF_RECORDS = ("key", "includeHeaders", "isolation.level", "kafka.isolation.level")
OPTIONS = (RAW, *_OF_RECORDS)


@dataclass(frozen=True, slots=True)
class RowForm:
    """A record, with its headers if they are asked for, or with `stored` a batch as it is stored,
    which is not decompressed."""

    stored: bool
    has_headers: bool

    @staticmethod
    def of(options: Options) -> RowForm:
        """Reads the options. Raises `UsageError` for one of records beside rawBatches: a batch may
        hold any records, of aborted transactions too."""
        stored = options.boolean(RAW, False)
        given = [name for name in _OF_RECORDS if options.text(name) is not None]
        if stored and given:
            raise UsageError(
                f"the option {given[0]} is for records, and {RAW} reads batches as they are stored",
                hint="leave out one of the two",
            )
        return RowForm(stored, options.boolean("includeHeaders", False))

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns."""
        return BATCH_COLUMNS if self.stored else COLUMNS

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none; headers only with includeHeaders, as
        in Spark's own source."""
        if self.stored:
            return tuple(column.name for column in BATCH_COLUMNS)
        return tuple(name for name in NAMES if self.has_headers or name != HEADERS)

    @property
    def least(self) -> tuple[str, ...]:
        """The column of the format that is read where no other is needed."""
        return ("last_offset",) if self.stored else ("offset",)
