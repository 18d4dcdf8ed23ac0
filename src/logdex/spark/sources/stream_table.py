"""What a stream reads, whatever the format: a `LogStream` says where its logs begin and end, and
plans the read between two offsets.

A stream's offsets are those that Spark writes into its checkpoint. They have the form of Spark's
own `kafka` source: a number per log, by two names, ``{"orders": {"0": 23}}`` for Kafka's partitions
and ``{"broker-a": {"commitlog": 1048576}}`` for RocketMQ's stores. Beside the numbers of a topic's
partitions is its id, where one is known: ``{"orders": {"0": 23, "topicId": "…"}}``. Under the name
``"marks"`` is by which message or batch a log is known again. An older Logdex has written neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from logdex.convert.columns.projection import SourceColumn
from logdex.errors import CorruptError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.spark.sources.loss import require_no_loss
from logdex.spark.sources.options import Options
from logdex.spark.sources.table import ReadOptions, TablePlan

Place = tuple[str, str]
Offsets = dict[str, dict[str, Any]]
"""Numbers by both names, ids by the first name and `TOPIC_ID`, marks by the first name and
`MARKS`."""
Known = Mapping[str, Mapping[str, Any]]
"""The same, read from a checkpoint."""
TOPIC_ID = "topicId"
MARKS = "marks"
Ends = Mapping[Place, int]
Mark = Mapping[str, Any]
"""By what a log is known again of which a stream has read something, as JSON."""

_DELAY_S = 15 * 60
"""The default of maxTriggerDelay, as of Spark's own source."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the logs one batch of a stream reads at most, in messages or records and in bytes
    of the logs; None for no limit. A batch waits until there are `rows_min` of them, or `delay_s`
    has passed since the last one."""

    rows: int | None = None
    size_bytes: int | None = None
    rows_min: int | None = None
    delay_s: float = _DELAY_S

    @staticmethod
    def of(options: Options) -> Limits:
        """Reads the options. Raises `UsageError` for values that are not valid."""
        size = None if options.text("maxBytesPerTrigger") is None else options.size_bytes("maxBytesPerTrigger", 1)
        most, least = (options.integer(f"{which}OffsetsPerTrigger", 1) for which in ("max", "min"))
        if most is not None and least is not None and least > most:
            raise options.wrong("minOffsetsPerTrigger", f"maxOffsetsPerTrigger is {most}, which is less")
        return Limits(most, size, least, options.seconds("maxTriggerDelay", _DELAY_S))

    def share(self, lag: int, total: int) -> Limits:
        """Returns the limits of one log, by its part of all that is to be read. It is rounded as in
        Spark's own source, so that each log goes on."""

        def part(limit: int | None) -> int | None:
            if limit is None:
                return None
            exact = limit * lag / max(total, 1)
            return math.ceil(exact) if exact < 1 else math.floor(exact)

        return Limits(part(self.rows), part(self.size_bytes))

    def __bool__(self) -> bool:
        return self.rows is not None or self.size_bytes is not None


class Change(NamedTuple):
    """What shows that a log is not as the stream has read it, in words. If it `is_another`, nothing
    that was read is in it, and it is read from its beginning."""

    what: str
    is_another: bool


class LogStream(Protocol):
    """The logs that a stream reads. It can be pickled and has no open files."""

    source: str
    read: ReadOptions
    limits: Limits

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns that a user may ask for."""

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none."""

    @property
    def stopped_by(self) -> Mapping[Place, CorruptError]:
        """The damage behind which the last result of `latest` does not go."""

    @property
    def changed(self) -> Mapping[Place, Change]:
        """The logs that were not as their marks say at the last `latest`."""

    def initial(self, env: Env = DEFAULT_ENV) -> Offsets:
        """Returns where a new stream begins."""

    def latest(self, env: Env = DEFAULT_ENV, known: Known | None = None) -> tuple[Offsets, Offsets]:
        """Returns where the logs begin and end now, and finds what has `changed` by the marks of
        the offsets that are `known`."""

    def limited(self, start: Ends, end: Ends, limits: Limits, env: Env = DEFAULT_ENV) -> dict[Place, int]:
        """Returns the ends of a batch that reads at most `limits`, but something of each log with
        anything to read."""

    def marks(self, start: Ends, end: Ends, env: Env = DEFAULT_ENV) -> dict[Place, Mark]:
        """Returns the marks of the logs that a batch from `start` to `end` reads."""

    def count(self, start: Ends, end: Ends, most: int, env: Env = DEFAULT_ENV) -> int:
        """Returns how many messages or records are between two offsets of each log, as `limited`
        counts them. It may stop at `most`."""

    def plan(self, start: Offsets, end: Offsets, reads: tuple[str, ...], env: Env = DEFAULT_ENV) -> TablePlan:
        """Returns the plan of the read from `start` to `end` for some columns of the format."""


def flat(offsets: Known) -> dict[Place, int]:
    """Returns offsets by both names at once."""
    return {
        (name, part): number
        for name, numbers in offsets.items()
        for part, number in numbers.items()
        if part not in (TOPIC_ID, MARKS)
    }


def ids_in(offsets: Known) -> dict[str, str]:
    """Returns the ids of topics that offsets state."""
    return {name: str(numbers[TOPIC_ID]) for name, numbers in offsets.items() if TOPIC_ID in numbers}


def marks_in(offsets: Known) -> dict[Place, Mark]:
    """Returns the marks that offsets state."""
    return {
        (name, part): mark
        for name, numbers in offsets.items()
        for part, mark in numbers.get(MARKS, {}).items()
        if part in numbers
    }


def nested(offsets: Ends, ids: Mapping[str, str] | None = None, marks: Mapping[Place, Mark] | None = None) -> Offsets:
    """Returns offsets as they are in a checkpoint, with the ids of topics, and marks."""
    found: Offsets = {}
    for (name, part), number in sorted(offsets.items()):
        found.setdefault(name, {})[part] = number
    for name, topic_id in (ids or {}).items():
        if name in found:
            found[name][TOPIC_ID] = topic_id
    for (name, part), mark in (marks or {}).items():
        if part in found.get(name, {}):
            found[name].setdefault(MARKS, {})[part] = dict(mark)
    return found


def created_again(source: str, start: Mapping[str, str], now: Mapping[str, str]) -> dict[str, str]:
    """Returns the topics that have another id now than at the start of a batch, and what there is
    to be said of each."""
    return {
        name: f"{source}: {name} was deleted and created again: the stream has read the topic with the id {topic_id}, "
        f"there is {now[name]}"
        for name, topic_id in start.items()
        if now.get(name, topic_id) != topic_id
    }


def without_topics(offsets: Ends, names: Collection[str]) -> dict[Place, int]:
    """Returns the offsets of all other topics."""
    return {place: number for place, number in offsets.items() if place[0] not in names}


def without_others(offsets: Ends, changed: Mapping[Place, Change]) -> dict[Place, int]:
    """Returns the offsets of all logs that are still those that were read."""
    others = {place for place, change in changed.items() if change.is_another}
    return {place: number for place, number in offsets.items() if place not in others}


class StreamProgress:
    """Moves a stream on: from the end of one batch to the end of the next one."""

    def __init__(self, stream: LogStream, env: Env = DEFAULT_ENV) -> None:
        self._stream = stream
        self._env = env
        self._target: dict[Place, int] | None = None
        self._last_batch = -math.inf
        self._counted: tuple[Ends, Ends, int] = {}, {}, 0
        self._said: set[str] = set()
        self.notes: list[str] = []
        """What is to be said in Spark's log, each once."""

    def set_target(self) -> None:
        """Lets no later batch go behind what there is now."""
        self._target = flat(self._stream.latest(self._env)[1])

    def advance(self, start: Known, limits: Limits) -> Offsets:
        """Returns the end of the batch that begins at `start`, which is `start` if there is nothing
        to read, or too little yet. Raises `UsageError` if messages behind it are gone, with
        failOnDataLoss, and the `CorruptError` of damage at which the logs end."""
        latest = self._stream.latest(self._env, start)
        begins, ends, ids = flat(latest[0]), flat(latest[1]), ids_in(latest[1])
        others = created_again(self._stream.source, ids_in(start), ids)
        before = without_topics(flat(start), others)
        changed = {place: each for place, each in self._stream.changed.items() if place in before}
        for place, error in self._stream.stopped_by.items():
            if before.get(place, begins[place]) >= ends[place]:
                raise error
        if self._target is not None:
            ends = {place: min(end, self._target.get(place, begins[place])) for place, end in ends.items()}
        for what in (*others.values(), *self._losses(before, begins, ends, changed)):
            note = require_no_loss(self._stream.read, what)
            if note not in self._said:
                self._said.add(note)
                self.notes.append(note)
        before = without_others(before, changed)
        starts = {place: min(max(before.get(place, begin), begin), ends[place]) for place, begin in begins.items()}
        if self._target is None and limits.rows_min is not None and not self._is_due(starts, ends, limits):
            return {name: dict(numbers) for name, numbers in start.items()}
        ends = self._stream.limited(starts, ends, limits, self._env) if limits else ends
        kept = {place: mark for place, mark in marks_in(start).items() if place in before and place not in changed}
        is_same = ends == starts and not changed
        return nested(ends, ids, kept if is_same else self._marks(kept, starts, ends))

    def _marks(self, kept: Mapping[Place, Mark], starts: Ends, ends: Ends) -> dict[Place, Mark]:
        """Returns the marks at the end of a batch. Those of logs of which it reads nothing are
        kept."""
        new = {place: end for place, end in ends.items() if end != starts[place] or place not in kept}
        return {**kept, **self._stream.marks(starts, new, self._env)}

    def _is_due(self, starts: Ends, ends: Ends, limits: Limits) -> bool:
        """Whether a batch that has a minimum need not wait. The first one of a query that is
        started never waits, as in Spark's own source."""
        if starts == ends:
            return False
        now, least = time.monotonic(), limits.rows_min or 0
        if now - self._last_batch < limits.delay_s:
            before, counted_to, rows = self._counted
            if before == starts and counted_to.keys() == ends.keys():  # what was counted need not be read again
                rows += self._stream.count(counted_to, ends, least - rows, self._env)
            else:
                rows = self._stream.count(starts, ends, least, self._env)
            self._counted = starts, ends, rows
            if rows < least:
                return False
        self._last_batch = now
        return True

    def _losses(self, before: Ends, begins: Ends, ends: Ends, changed: Mapping[Place, Change]) -> Iterator[str]:
        for place, offset in before.items():
            name = f"{self._stream.source}: {' '.join(place)}"
            if place not in ends:
                other = "or the checkpoint is that of a stream of another path"
                yield f"{name} was deleted meanwhile, {other}: the stream was at offset {offset}"
            elif place in changed:
                yield f"{name}: {changed[place].what}"
            elif offset < begins[place]:
                yield f"{name} begins at offset {begins[place]} now, the stream was at {offset}"
            elif offset > ends[place]:
                yield f"{name} ends at offset {ends[place]} now, the stream was at {offset}"


def each_limited(
    start: Ends, end: Ends, limits: Limits, of_one: Callable[[Place, int, int, Limits], int]
) -> dict[Place, int]:
    """Returns the ends of a batch. `of_one` returns the end in one log, which has something to
    read: from one offset to another, at most so much."""
    lags = {place: max(end[place] - begin, 0) for place, begin in start.items()}
    total = sum(lags.values())
    return {
        place: of_one(place, start[place], end[place], limits.share(lag, total)) if lag else end[place]
        for place, lag in lags.items()
    }
