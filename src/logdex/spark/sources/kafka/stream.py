"""The partitions that a stream of `kafka_log` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from logdex.convert.columns.projection import SourceColumn
from logdex.errors import CorruptError, UsageError
from logdex.frames.conditions import Conditions
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.read.first_records import end_of_first
from logdex.kafka.read.steady import PartitionView, steadily
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.snapshot.read_mark import ReadMark
from logdex.spark.sources.kafka.frozen import partition_of
from logdex.spark.sources.kafka.row_form import RowForm
from logdex.spark.sources.kafka.selection import OFFSETS
from logdex.spark.sources.kafka.table import OF_OTHERS, OPTIONS, SOURCE, LogDirTable
from logdex.spark.sources.loss import require_no_loss
from logdex.spark.sources.options import Options
from logdex.spark.sources.stream_table import (
    Change,
    Ends,
    Known,
    Limits,
    Mark,
    Offsets,
    Place,
    created_again,
    each_limited,
    flat,
    ids_in,
    marks_in,
    nested,
    without_others,
    without_topics,
)
from logdex.spark.sources.table import ReadOptions, TablePlan

_STARTING = frozenset(name.lower() for name in OFFSETS if name.startswith("starting"))


class LogDirStream:
    """The partitions of one or several log directories. See `LogStream`. Offsets are Kafka's, in
    the form of Spark's own source: ``{"orders": {"0": 23}}``."""

    source = SOURCE

    def __init__(self, given: Mapping[str, str]) -> None:
        options = Options(SOURCE, given, OPTIONS, OF_OTHERS)
        options.refuse_in_streams("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
        self.read = ReadOptions.of(options)
        self.limits = Limits.of(options)
        self._rows = RowForm.of(options)
        self._given = dict(given)
        self._given_later = {name: value for name, value in given.items() if name.lower() not in _STARTING}
        self._changed: dict[Place, Change] = {}

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns."""
        return self.read.available(self._rows.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none."""
        return self.read.names(self._rows.names)

    @property
    def stopped_by(self) -> Mapping[Place, CorruptError]:
        """Empty: a partition's end is found behind damage, and reading fails at it."""
        return {}

    @property
    def changed(self) -> Mapping[Place, Change]:
        """The logs that were not as their marks say at the last `latest`."""
        return self._changed

    def initial(self, env: Env = DEFAULT_ENV) -> Offsets:
        """Returns where the options say to begin, by default at the ends of the partitions."""
        table = LogDirTable(self._given, env, streaming=True)
        return nested(self._offsets(table)[0], table.topic_ids)

    def latest(self, env: Env = DEFAULT_ENV, known: Known | None = None) -> tuple[Offsets, Offsets]:
        """Returns where the partitions begin and end now, and finds which have `changed`."""
        table, (self._changed,) = self._look(env, known or {})
        begins, ends = self._offsets(table)
        return nested(begins, table.topic_ids), nested(ends, table.topic_ids)

    def _look(self, env: Env, *known: Known) -> tuple[LogDirTable, list[dict[Place, Change]]]:
        """Returns what there is, and for each of the known offsets what has changed since."""
        changed: list[dict[Place, Change]] = [{} for _ in known]
        marks = [marks_in(each) for each in known]

        def look(snapshot: PartitionSnapshot) -> None:
            place = _place(snapshot)
            for found, some in zip(changed, marks, strict=True):
                change = _change(snapshot, some[place]) if place in some else None
                if change is not None:
                    found[place] = change

        return LogDirTable(self._given_later, env, look=look), changed

    def marks(self, start: Ends, end: Ends, env: Env = DEFAULT_ENV) -> dict[Place, Mark]:
        """Returns the marks of the logs that a batch from `start` to `end` reads."""
        found: dict[Place, Mark] = {}

        def look(snapshot: PartitionSnapshot) -> None:
            place = _place(snapshot)
            if place in end:
                found[place] = asdict(ReadMark.of(snapshot, end[place]))

        LogDirTable(self._given_later, env, look=look)
        return found

    @staticmethod
    def _offsets(table: LogDirTable) -> tuple[dict[Place, int], dict[Place, int]]:
        begins = {(each.topic, str(each.partition)): each.begin for each in table.partitions}
        if len(begins) < len(table.partitions):
            raise UsageError(
                "the directories have other data for one partition", hint="make a stream of each directory"
            )
        return begins, {(each.topic, str(each.partition)): each.end for each in table.partitions}

    def limited(self, start: Ends, end: Ends, limits: Limits, env: Env = DEFAULT_ENV) -> dict[Place, int]:
        """Returns the ends of a batch that reads at most `limits`: offsets count, also those of
        which compaction has removed the records, as with Spark's own source."""
        roots: dict[Place, str] = {}
        table = LogDirTable(self._given_later, env) if limits.size_bytes is not None else None
        if table is not None:
            roots = {(each.topic, str(each.partition)): each.root for each in table.partitions}

        def of_one(place: Place, begin: int, last: int, share: Limits) -> int:
            if share.rows is not None:
                last = min(begin + share.rows, last)
            if table is None or place not in roots or share.size_bytes is None:
                return last
            return self._end_of_bytes(table, roots[place], place, (begin, last), share.size_bytes, env)

        return each_limited(start, end, limits, of_one)

    def count(self, start: Ends, end: Ends, most: int, env: Env = DEFAULT_ENV) -> int:
        """Returns how many offsets are between two of each partition."""
        return sum(max(end[place] - begin, 0) for place, begin in start.items())

    @staticmethod
    def _end_of_bytes(
        table: LogDirTable, root: str, place: Place, offsets: tuple[int, int], size_bytes: int, env: Env
    ) -> int:
        def act(view: PartitionView) -> int:
            return end_of_first(view, *offsets, size_bytes)

        with table.open(root, env) as snapshot:
            return steadily(partition_of(snapshot, place[0], int(place[1])), act)

    def plan(self, start: Offsets, end: Offsets, reads: tuple[str, ...], env: Env = DEFAULT_ENV) -> TablePlan:
        """Returns the plan of the read from `start` to `end`."""
        table, (changed, changed_since) = self._look(env, start, end)
        ids = ids_in(end)
        gone = created_again(SOURCE, ids, table.topic_ids)
        lost = [
            f"{SOURCE}: {' '.join(place)}: {what}" for place, (what, _) in changed_since.items() if place[0] not in gone
        ]
        table.notes += [require_no_loss(self.read, what) for what in (*gone.values(), *lost)]
        before = without_others(without_topics(flat(start), created_again(SOURCE, ids_in(start), ids)), changed)
        begins = {(each.topic, each.partition): each.begin for each in table.partitions}
        ranges = {
            (topic, int(part)): (before.get((topic, part), begins.get((topic, int(part)), 0)), last)
            for (topic, part), last in without_others(without_topics(flat(end), gone), changed_since).items()
        }
        table.limit_to(ranges)
        return table.plan(reads, Conditions(), env)


def _place(snapshot: PartitionSnapshot) -> Place:
    return snapshot.topic, str(snapshot.partition)


def _change(snapshot: PartitionSnapshot, mark: Mark) -> Change | None:
    """Returns how a partition differs from the one that the stream has read."""
    found = ReadMark.of_json(mark).difference(snapshot)
    if found is None:
        return None
    told = "it is another log than the stream has read" if found.is_another else "what is in place of it is not read"
    return Change(f"{found.what}: {told}", found.is_another)
