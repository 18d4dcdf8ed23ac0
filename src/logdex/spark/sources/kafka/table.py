"""The partitions that a DataFrame of `kafka_log` reads, and the plan of a read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby
from typing import Any

from logdex.convert.columns.kafka import NEVER_NULL
from logdex.convert.columns.projection import SourceColumn, of_format
from logdex.errors import MissingFileError, UsageError, VanishedError
from logdex.formats import FORMATS
from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition, Conditions
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.read.log_read import READ_COMMITTED, READ_UNCOMMITTED
from logdex.kafka.read.narrow import narrowed
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.splits.split import ReadSplit
from logdex.kafka.read.splits.split_again import is_created_again
from logdex.kafka.snapshot.log_dir_snapshot import KafkaSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.spark.sources.damage import FAILFAST
from logdex.spark.sources.kafka import row_form
from logdex.spark.sources.kafka.frozen import FrozenPartition, freeze, partition_of, replica_of, selected
from logdex.spark.sources.kafka.part import LogPart
from logdex.spark.sources.kafka.replicas import Replica, choose
from logdex.spark.sources.kafka.selection import OFFSETS, SELECTING, Limit, Selection, require_partitions
from logdex.spark.sources.loss import require_no_loss, require_offsets
from logdex.spark.sources.options import COMMON_OPTIONS, Options, format_settings
from logdex.spark.sources.paths import find_paths, open_snapshot
from logdex.spark.sources.table import ReadOptions, TablePlan, partition_bytes

SOURCE = "kafka_log"
FORMAT = FORMATS["kafka"]
OPTIONS = (*COMMON_OPTIONS, *SELECTING, *OFFSETS, *row_form.OPTIONS, "includeControl", *format_settings(FORMAT))
_NO_BROKER = f"{SOURCE} reads the files of its path and asks no broker: leave it out"
OF_OTHERS = {
    **dict.fromkeys(("topic", "topics"), "the topics are named by subscribe, or by subscribePattern or assign"),
    **dict.fromkeys(("queueId", "queue", "partition", "partitions"), 'say assign, such as {"orders": [0, 1]}'),
    "kafka.": f"{_NO_BROKER}; of Kafka's own options only kafka.isolation.level is known",
    **dict.fromkeys(("groupIdPrefix", "kafkaConsumer.", "fetchOffset."), _NO_BROKER),
}
"""What is said of options that other sources have."""

_RANGES_MAX = 100_000
"""More ranges of offsets than this are not planned one by one."""
_PLACE = frozenset(("topic", "partition", "logDir"))
_COMPARISONS = frozenset((plain.EQUAL, plain.LESS, plain.LESS_OR_EQUAL, plain.GREATER, plain.GREATER_OR_EQUAL))


class LogDirTable:
    """The partitions of one or several log directories. See `LogTable`."""

    source = SOURCE

    def __init__(
        self,
        given: Mapping[str, str],
        env: Env = DEFAULT_ENV,
        *,
        streaming: bool = False,
        look: Callable[[PartitionSnapshot], None] | None = None,
    ) -> None:
        """With `streaming`, the options that say where to begin are read as those of a stream.
        `look` is called with each partition, while it is open."""
        options = Options(SOURCE, given, OPTIONS, OF_OTHERS)
        self.read = ReadOptions.of(options)
        env = self.read.env if self.read.storage else env
        key = options.text("key")
        self._key = None if key is None else key.encode()
        self._rows = row_form.RowForm.of(options)
        self._control = options.boolean("includeControl", False)
        levels = (READ_UNCOMMITTED, READ_COMMITTED)
        level = options.choice("kafka.isolation.level", levels, READ_UNCOMMITTED)
        self._isolation = options.choice("isolation.level", levels, level)
        self._settings: dict[str, Any] = options.settings(FORMAT)
        strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        limits = Limit.of(options, "starting", streaming=streaming), Limit.of(options, "ending")
        self.notes = options.times_in_seconds()
        self.partitions: list[FrozenPartition] = []
        self.topic_ids: dict[str, str] = {}
        """The ids of the topics of which all partitions have the same."""
        with ExitStack() as stack:
            opened: dict[str, KafkaSnapshot] = {}
            for path in find_paths(options, env):
                opened[path] = self.open(path, env)
                stack.callback(opened[path].close)
            chosen = self._choose(opened, Selection.of(options), limits, env)
            require_partitions(limits, frozenset((each.topic, each.partition) for each in chosen))
            for each in chosen:
                snapshot = partition_of(opened[each.root], each.topic, each.partition)
                frozen = freeze(snapshot, each, limits, self._isolation, or_latest=strategy == "latest")
                self._require_there(snapshot, frozen.begin, frozen.end)
                self.partitions.append(frozen)
                if look is not None:
                    look(snapshot)
            for topic in {each.topic for each in chosen}:
                ids = {each.topic_id for each in chosen if each.topic == topic}
                if len(ids) == 1 and (topic_id := ids.pop()) is not None:
                    self.topic_ids[topic] = topic_id

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns."""
        return self.read.available(self._rows.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none."""
        return self.read.names(self._rows.names)

    def open(self, path: str, env: Env = DEFAULT_ENV) -> KafkaSnapshot:
        """Opens the log directory or partition at `path` with the settings of the options."""
        env = self.read.env if self.read.storage else env
        snapshot: KafkaSnapshot = open_snapshot(SOURCE, path, FORMAT, self._settings, env)
        return snapshot

    def _choose(
        self, opened: Mapping[str, KafkaSnapshot], selection: Selection, limits: tuple[Limit, Limit], env: Env
    ) -> list[Replica]:
        replicas = [replica_of(each, path, env) for path, root in opened.items() for each in selected(root, selection)]
        known = {
            (topic, number) for each in opened.values() for topic, some in each.topics().items() for number in some
        }
        selection.require_known(known, limits, next(iter(opened)))
        chosen, notes = choose(replicas)
        self.notes += notes
        return sorted(chosen, key=lambda each: (each.root, each.topic, each.partition))

    def _require_there(self, snapshot: PartitionSnapshot, begin: int, end: int) -> str | None:
        """Returns a note if a partition does not have all of the offsets [begin, end) any more.
        With failOnDataLoss that is an error."""
        there = snapshot.log_start_offset, snapshot.log_end_offset
        return require_offsets(self.read, snapshot.path, (begin, end), there)

    def limit_to(self, ranges: Mapping[tuple[str, int], tuple[int, int]]) -> None:
        """Limits the table to the given offsets [begin, end) of each partition. A partition that is
        no longer there, or not with all of them, is a loss."""
        found = {(each.topic, each.partition): each for each in self.partitions}
        for topic, partition in sorted(ranges.keys() - found.keys()):
            self.notes.append(require_no_loss(self.read, f"{topic}-{partition} was deleted meanwhile"))
        self.partitions = []
        for name, each in found.items():
            if name in ranges:
                begin, end = ranges[name]
                there = max(each.end - each.begin, 1)
                size_bytes = min(each.size_bytes * max(end - begin, 0) // there, each.size_bytes)
                self.partitions.append(replace(each, begin=begin, end=end, size_bytes=size_bytes))

    # -- planning ---------------------------------------------------------------------------------
    def is_exact(self, condition: Condition) -> bool:
        """Whether a condition is applied exactly. None is if rows about damage are wanted, because
        Spark must leave those out by itself."""
        column, operation = condition.column, condition.operation
        if self.read.mode != FAILFAST:
            return False
        if column in _PLACE or (operation == plain.IS_NOT_NULL and column in NEVER_NULL):
            return True
        return (column in ("offset", "timestamp") and operation in _COMPARISONS) or (
            column == "key" and operation == plain.EQUAL
        )

    def plan(self, reads: tuple[str, ...], wanted: Conditions, env: Env = DEFAULT_ENV) -> TablePlan:
        """Plans a read."""
        plan = TablePlan(notes=list(self.notes))
        split_bytes = partition_bytes(self.read, sum(each.size_bytes for each in self.partitions))
        for root, group in groupby(self.partitions, key=lambda each: each.root):
            with self.open(root, env) as snapshot:
                for each in group:
                    self._plan_partition(plan, each, snapshot, reads or self._rows.least, wanted, split_bytes)
        return plan

    def _plan_partition(
        self,
        plan: TablePlan,
        frozen: FrozenPartition,
        root: KafkaSnapshot,
        columns: tuple[str, ...],
        wanted: Conditions,
        split_bytes: int,
    ) -> None:
        try:
            snapshot = partition_of(root, frozen.topic, frozen.partition)
        except (MissingFileError, VanishedError):
            plan.notes.append(require_no_loss(self.read, f"{frozen.root}: {frozen.name} was deleted meanwhile"))
            return
        if is_created_again(snapshot.directory, frozen.topic_id, snapshot.env):
            what = f"{frozen.root}: {frozen.name} was deleted and created again meanwhile"
            plan.notes.append(require_no_loss(self.read, what))
            return
        files = [segment for segment in snapshot.segments if segment.size_bytes]
        plan.total_files += len(files)
        plan.total_bytes += sum(segment.size_bytes for segment in files)
        plan.pruned_files += len(files)
        found = self.read_filter(frozen, wanted)
        if found is None or found.offset is None or found.end_offset is None:
            return
        if found.offset >= found.end_offset and snapshot.segments:
            return
        note = self._require_there(snapshot, found.offset, found.end_offset)
        plan.notes += [] if note is None else [note]
        splits = [
            replace(split, columns=columns, stored=self._rows.stored, topic_id=frozen.topic_id)
            for split in self._splits(snapshot, found, split_bytes)
        ]
        plan.pruned_files -= len({split.path for split in splits if split.lost is None})
        for split in splits:
            is_last = split.base_offset == frozen.last_base
            sure_end = min(split.end, frozen.last_position) if is_last else split.end
            plan.parts.append(LogPart(split, frozen.root, sure_end, self.read.fail_on_data_loss))

    def _splits(self, snapshot: PartitionSnapshot, found: ReadFilter, split_bytes: int) -> Iterator[ReadSplit]:
        """Yields the splits for a filter with both offsets, for each maxRecordsPerPartition of
        them."""
        begin, end = found.offset or 0, found.end_offset or 0
        step = self.read.partition_records or max(end - begin, 1)
        if end - begin > step * _RANGES_MAX:
            what = f"maxRecordsPerPartition {step} divides the offsets {begin} to {end} of {snapshot.name}"
            raise UsageError(f"{what} into more than {_RANGES_MAX:,} parts", hint="give a larger one, or offsets")
        lost = set[str]()
        for first in range(begin, max(end, begin + 1), step):
            part = replace(found, offset=first, end_offset=min(first + step, end))
            for split in snapshot.plan_read(part, split_bytes=split_bytes).splits:
                if split.lost is None:
                    yield split
                elif split.path not in lost:
                    lost.add(split.path)
                    yield split

    def read_filter(self, frozen: FrozenPartition, wanted: Conditions) -> ReadFilter | None:
        """Returns the filter for a partition, by the options and the conditions; None if no record
        of it is wanted."""
        if not wanted.hold("logDir", frozen.root):
            return None
        read = ReadFilter(
            offset=frozen.begin, end_offset=frozen.end, control=self._control, isolation=self._isolation, key=self._key
        )
        return narrowed(read, frozen.topic, frozen.partition, of_format(self._rows.columns, wanted))
