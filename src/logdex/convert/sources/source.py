"""The interface of a log that a conversion reads, whatever its format.

Reading goes on behind damage. What is lost there is told in words, for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from logdex.errors import CorruptError, LogInUseError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.look_again import LOOKS_MAX

T = TypeVar("T")

OnLoss = Callable[[str], None]
"""Takes a sentence about bytes of a log that could not be read: which, and why."""

Positions = Mapping[str, int]
"""Up to where the logs of a source are read, by the name of each log: a physical offset of a
CommitLog, or the offset of a partition."""

Marks = Mapping[str, Mapping[str, Any]]
"""What identifies the logs that were read, by the name of each log, as JSON: the last message, or
the ids and the last batch of a partition."""


class SourcePart(Protocol):
    """A part of a log. It can be pickled."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that it covers."""

    def batches(self, on_loss: OnLoss, env: Env = DEFAULT_ENV) -> Iterator[pa.RecordBatch]:
        """Yields the rows with the format's columns, in the order of the log. None is empty."""


@dataclass(slots=True)
class SourcePlan:
    """The parts to read. `positions` are those from which a later plan goes on, and by `marks` it
    knows the logs again. `losses` tell of what is missing before a byte was read, and `notes` of
    what a crash left unfinished at the end of a log, which is no loss. `waiting` tells of what a
    later plan can read, because a transaction is open."""

    parts: list[SourcePart] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=dict)
    marks: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        """The bytes of the logs that the parts cover."""
        return sum(part.size_bytes for part in self.parts)


class LogSource(Protocol):
    """A store or a Kafka path, and which of its messages are wanted."""

    @property
    def format(self) -> str:
        """The name of its format."""

    @property
    def path(self) -> str:
        """The real path."""

    @property
    def filter(self) -> Mapping[str, Any]:
        """The filter as JSON: what is not there is not bounded."""

    def plan(
        self,
        columns: tuple[str, ...],
        since: Positions,
        split_bytes: int,
        env: Env = DEFAULT_ENV,
        *,
        marks: Marks | None = None,
    ) -> SourcePlan:
        """Plans a read of some of the format's columns, from positions on. Raises `UsageError` if a
        log ends before such a position, or is another one than its mark is of."""

    def still_holds(self, plan: SourcePlan, env: Env = DEFAULT_ENV) -> bool:
        """Whether no log has been cut, or begun anew, since a plan was made. Then all that was read
        by it so far is of one log. What cannot be read is no cut."""


def read_one_log(source: LogSource, read: Callable[[], tuple[list[SourcePlan], T]], env: Env) -> T:
    """Returns what `read` returns beside the plans that it reads by. Where a log is cut meanwhile,
    as by a broker that recovers, `read` is called again, because it may have read old messages in
    front of new ones. Raises `LogInUseError` if that happens each time."""
    for _ in range(LOOKS_MAX):
        plans, found = read()
        distinct = {repr(plan.marks): plan for plan in plans if plan.parts}
        if all(source.still_holds(plan, env) for plan in distinct.values()):
            return found
    hint = "run it again when its broker has recovered"
    raise LogInUseError("its log was cut each time it was read", path=source.path, hint=hint)


def told(error: CorruptError) -> str:
    """Returns damage as a sentence."""
    behind = "" if error.end_position is None else f" (to byte {error.end_position})"
    return f"{error.message}{behind}"


def ends_before(path: str, name: str, end: int, since: int) -> UsageError:
    """Returns the error of a log that ends before the position that an earlier run reached."""
    return UsageError(
        f"{path}: {name} ends at {end}, and an earlier run has read it up to {since}: it was cut, or is another log",
        hint="choose another --output",
    )


def another_log(path: str, name: str, why: str) -> UsageError:
    """Returns the error of a log that is not the one that an earlier run has read."""
    return UsageError(f"{path}: {name} is another log than the one in this lake: {why}", hint="choose another --output")


def filter_json(**bounds: object) -> dict[str, Any]:
    """Returns the bounds that are given, as JSON has them."""
    return {name: value for name, value in bounds.items() if value is not None and value is not False}
