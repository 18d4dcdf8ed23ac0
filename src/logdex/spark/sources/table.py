"""What a DataFrame reads, whatever the format: a `LogTable`, which is fixed when the DataFrame is
made, plans a read for some columns and conditions; the plan's parts are read by Spark's tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pyarrow as pa

from logdex.convert.columns.projection import SourceColumn
from logdex.errors import CorruptError, UsageError
from logdex.frames.conditions import Condition, Conditions
from logdex.io.env import DEFAULT_ENV, Env
from logdex.spark.sources.damage import CORRUPT, CORRUPT_COLUMN, FAILFAST, MODES, PERMISSIVE
from logdex.spark.sources.options import Options

PARTITION_BYTES = 128 << 20
"""The default of maxPartitionBytes, as of Spark's own file sources."""
_PARTITION_BYTES_MIN = 4 << 20
_TASKS_PER_CORE = 2

OnDamage = Callable[[CorruptError], None]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options that are the same for all formats."""

    columns: tuple[str, ...] | None
    mode: str
    fail_on_data_loss: bool
    partition_bytes: int
    partitions_min: int
    partition_records: int | None = None
    storage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def env(self) -> Env:
        """What files are read through: with the given options of fsspec, else the default."""
        return Env(storage=self.storage) if self.storage else DEFAULT_ENV

    @staticmethod
    def of(options: Options) -> ReadOptions:
        """Reads them. Raises `UsageError` for values that are not valid."""
        return ReadOptions(
            options.names("columns"),
            options.choice("mode", MODES, FAILFAST),
            options.boolean("failOnDataLoss", True),
            options.size_bytes("maxPartitionBytes", PARTITION_BYTES),
            options.integer("minPartitions", 1) or 1,
            options.integer("maxRecordsPerPartition", 1),
            options.storage(),
        )

    def names(self, default: Sequence[str]) -> tuple[str, ...]:
        """Returns the columns of the DataFrame if the user gives no schema."""
        names = tuple(default) if self.columns is None else self.columns
        return (*names, CORRUPT) if self.mode == PERMISSIVE and CORRUPT not in names else names

    def available(self, columns: Sequence[SourceColumn]) -> tuple[SourceColumn, ...]:
        """Returns the columns that a user may ask for. A row about damage is null in all others."""
        if self.mode != PERMISSIVE:
            return tuple(columns)
        return (*(replace(column, nullable=True) for column in columns), CORRUPT_COLUMN)


class TablePart(Protocol):
    """A part of a plan, which can be pickled."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that it covers."""

    @property
    def constants(self) -> Mapping[str, str]:
        """The values of the columns that are the same in all its rows."""

    def batches(self, on_damage: OnDamage | None, env: Env = DEFAULT_ENV) -> Iterator[pa.RecordBatch]:
        """Yields the format's batches. Raises `CorruptError` at damage, or passes it to `on_damage`
        and goes on behind it."""


@dataclass(slots=True)
class TablePlan:
    """The parts to read, and what was left out, in files and bytes of the logs. `notes` are said in
    Spark's log. `damage` was found while planning."""

    parts: list[TablePart] = field(default_factory=list)
    total_files: int = 0
    total_bytes: int = 0
    pruned_files: int = 0
    notes: list[str] = field(default_factory=list)
    damage: list[CorruptError] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The bytes of the logs that the parts cover."""
        return sum(part.size_bytes for part in self.parts)

    def describe(self, source: str, conditions: Conditions) -> str:
        """Returns a line about what is read and what was left out, and why."""
        why = f" for {conditions}" if str(conditions) else ""
        left = max(self.total_bytes - self.size_bytes, 0)  # a byte may be read by two parts
        return (
            f"{source}: reads {self.size_bytes} of {self.total_bytes} bytes{why}; left out "
            f"{self.pruned_files} of {self.total_files} files, {left} bytes"
        )


class LogTable(Protocol):
    """What a DataFrame reads. It can be pickled, and stays as it was when it was made, so that all
    actions of a DataFrame see the same rows."""

    source: str
    read: ReadOptions

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns that a user may ask for."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none."""

    def is_exact(self, condition: Condition) -> bool:
        """Whether `plan` leaves out every row for which a condition does not hold."""

    def plan(self, reads: tuple[str, ...], wanted: Conditions, env: Env = DEFAULT_ENV) -> TablePlan:
        """Returns the plan for some columns of the format. Rows for which a condition does not hold
        may be left out; all others are in it."""


def require_columns(read: ReadOptions, names: Sequence[str]) -> None:
    """Raises `UsageError` if the schema that the user gives has other columns than the option
    `columns`. Without a schema it has the same."""
    asked, given, all_names = ({name.lower() for name in each} for each in (read.columns or (), names, read.names(())))
    if read.columns is not None and not all_names >= given >= asked:
        raise UsageError(
            f"the schema has the columns {', '.join(names)}, and the option columns is {','.join(read.columns)!r}",
            hint="leave out one of the two: each says which columns are read",
        )


def partition_bytes(read: ReadOptions, total_bytes: int) -> int:
    """Returns the size of a task's part of the log: maxPartitionBytes, or less if there would be
    fewer tasks than cores, or fewer than minPartitions."""
    tasks = _TASKS_PER_CORE * (os.cpu_count() or 1)
    size = min(read.partition_bytes, max(total_bytes // tasks, _PARTITION_BYTES_MIN))
    return max(min(size, -(-total_bytes // read.partitions_min)), 1)
