"""What is to know of a format's log as a table, beside its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logdex.convert.columns import kafka, rocketmq
from logdex.convert.columns.projection import SourceColumn


@dataclass(frozen=True, slots=True)
class TableForm:
    """The table of a format. `topic` and `time_ms` are the columns of the format's read that state
    them. The rows of a topic are in `order`. `keys` are the columns by which single rows are looked
    up, as paths in Parquet. `constants` are columns that say which log a row is from, and
    `repeated` are columns that repeat another one in another type."""

    columns: tuple[SourceColumn, ...]
    topic: str
    time_ms: str
    order: tuple[str, ...]
    keys: tuple[str, ...]
    constants: frozenset[str]
    repeated: frozenset[str] = frozenset()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns without the topic, those that are the same for all rows, and those that
        repeat others."""
        left_out = self.constants | self.repeated | {"topic"}
        return tuple(column.name for column in self.columns if column.name not in left_out)


FORMS: Mapping[str, TableForm] = {
    "rocketmq": TableForm(
        rocketmq.COLUMNS,
        topic="topic",
        time_ms="store_timestamp_ms",
        order=("queueId", "queueOffset", "physicalOffset"),
        keys=("uniqueKey", "msgId", "keys.list.element"),
        constants=frozenset(("brokerName",)),
        repeated=frozenset(("properties",)),
    ),
    "kafka": TableForm(
        kafka.COLUMNS,
        topic="topic",
        time_ms="timestamp_ms",
        order=("partition", "offset"),
        keys=("key",),
        constants=frozenset(("logDir",)),
    ),
}
"""The tables by the name of their format."""
