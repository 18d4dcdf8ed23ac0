"""The stores that a DataFrame of `rocketmq_store` reads, and the plan of a read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from logdex.convert.columns.projection import SourceColumn, of_format
from logdex.convert.columns.rocketmq import COLUMNS, NAMES, NEVER_NULL
from logdex.errors import MissingFileError, UsageError
from logdex.formats import FORMATS
from logdex.frames import conditions as plain
from logdex.frames.conditions import Condition, Conditions, highest, lowest
from logdex.io.env import DEFAULT_ENV, Env
from logdex.primitives.wrong_questions import require_order, require_order_of_times
from logdex.rocketmq.consume_queue.tag_filter import TagFilter
from logdex.rocketmq.read.narrow import is_usable, narrowed
from logdex.rocketmq.read.read_filter import QueueRange, ReadFilter
from logdex.rocketmq.snapshot.frozen_store import FrozenStore, freeze
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sources.damage import FAILFAST, with_hint
from logdex.spark.sources.loss import require_no_loss
from logdex.spark.sources.options import COMMON_OPTIONS, Options, format_settings
from logdex.spark.sources.paths import different_names, find_paths, open_snapshot
from logdex.spark.sources.rocketmq.asked import require_known, require_ranges, unknown_names
from logdex.spark.sources.rocketmq.offsets import (
    BEGIN_PHYSICAL,
    BEGIN_TIMES,
    END_PHYSICAL,
    END_TIMES,
    Name,
    QueueTimes,
    named_queues,
    queue_ranges,
)
from logdex.spark.sources.rocketmq.part import StorePart
from logdex.spark.sources.table import ReadOptions, TablePlan, partition_bytes

SOURCE = "rocketmq_store"
FORMAT = FORMATS["rocketmq"]
OPTIONS = (
    *COMMON_OPTIONS,
    *("topic", "queueId", "key", "tag", "subExpression"),
    *("startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"),
    *(BEGIN_TIMES, END_TIMES, "timeSlackMs", BEGIN_PHYSICAL, END_PHYSICAL, "rawBody", "brokerName"),
    *format_settings(FORMAT),
)
_NO_BROKER = f"{SOURCE} reads the files of its path and asks no broker: leave it out"
OF_OTHERS = {
    **dict.fromkeys(("subscribe", "topics"), "the topic is named by topic; without it all topics are read"),
    "subscribePattern": "name one topic by topic, or read all and say where topic rlike",
    **dict.fromkeys(("assign", "partition", "partitions"), "say topic, and queueId with numbers between commas"),
    **dict.fromkeys(("nameServer", "nameServers", "group", "groupId", "kafka."), _NO_BROKER),
}
"""What is said of options that other sources have."""

_RANGES_NOTE = (
    f"{SOURCE}: of startingOffsets and endingOffsets a task learns which bytes it may leave out: those for which the "
    "ConsumeQueues name each message; it reads the others"
)
_RANGES = frozenset(("queueOffset", "physicalOffset", "storeTimestamp"))
_COMPARISONS = frozenset((plain.EQUAL, plain.LESS, plain.LESS_OR_EQUAL, plain.GREATER, plain.GREATER_OR_EQUAL))


Look = Callable[[StoreSnapshot, str, str], FrozenStore]
"""Returns which part of the store at a path, with a name, is read."""


@dataclass(frozen=True, slots=True)
class MessageOptions:
    """The options of `rocketmq_store` that choose messages."""

    topic: str | None
    queue_ids: frozenset[int] | None
    key: str | None
    tag: str | None
    ranges: tuple[QueueRange, ...]
    times: QueueTimes
    named: tuple[Name, ...]
    begin_ms: int | None
    end_ms: int | None
    slack_ms: int | None
    begin_offset: int | None
    end_offset: int | None
    raw_bodies: bool

    @staticmethod
    def of(options: Options) -> MessageOptions:
        """Reads them. Raises `UsageError` for values that are not valid."""
        begin_ms, end_ms = options.time_ms("startingTimestamp"), options.time_ms("endingTimestamp")
        require_order_of_times(**{"the starting timestamp": begin_ms, "the ending timestamp": end_ms})
        begin_offset, end_offset = options.integer(BEGIN_PHYSICAL), options.integer(END_PHYSICAL)
        require_order(**{"the starting physical offset": begin_offset, "the ending physical offset": end_offset})
        if options.text("maxRecordsPerPartition") is not None:
            why = "rocketmq_store has no maxRecordsPerPartition: a CommitLog is split by bytes, because nothing "
            raise UsageError(f"{why}on disk says how many messages are in a part of it", hint="use maxPartitionBytes")
        topic, key, queue_ids = options.text("topic"), options.text("key"), _queue_ids(options)
        if key is not None and topic is None:
            raise UsageError("the option key needs the option topic", hint="a key is looked up within a topic")
        return MessageOptions(
            topic=topic,
            queue_ids=queue_ids,
            key=key,
            tag=_tag(options),
            ranges=queue_ranges(options),
            times=QueueTimes.of(options),
            named=named_queues(options, topic, queue_ids),
            begin_ms=begin_ms,
            end_ms=None if end_ms is None else end_ms - 1,
            slack_ms=options.integer("timeSlackMs"),
            begin_offset=begin_offset,
            end_offset=end_offset,
            raw_bodies=options.boolean("rawBody", False),
        )

    def read_filter(self) -> ReadFilter:
        """Returns the messages that they choose."""
        return ReadFilter(
            topic=None if self.topic is None else self.topic.encode(),
            queue_ids=self.queue_ids,
            begin_offset=self.begin_offset,
            end_offset=self.end_offset,
            begin_ms=self.begin_ms,
            end_ms=self.end_ms,
            tags=TagFilter.parse(self.tag).tags,
            key=None if self.key is None else self.key.encode(),
            queue_ranges=self.ranges,
        )

    def ranges_without(self, unknown: Collection[Name]) -> list[QueueRange]:
        """Returns the ranges of all queues but those that a store has not."""
        return [each for each in self.ranges if (each.topic, each.queue_id) not in unknown]


def _queue_ids(options: Options) -> frozenset[int] | None:
    """Returns the numbers of the queues to read, of each topic, None for all."""
    found = options.names("queueId")
    if found is None:
        return None
    if not all(re.fullmatch(r"\d{1,9}", each, re.ASCII) for each in found):
        raise options.wrong("queueId", "say the number of a queue, or several with commas between them")
    return frozenset(map(int, found))


def _tag(options: Options) -> str | None:
    """Returns the tag expression. rocketmq-spark calls the option subExpression."""
    given = [name for name in ("tag", "subExpression") if options.text(name) is not None]
    if len(given) > 1:
        raise UsageError(f"the options {' and '.join(given)} exclude each other", hint="give one of them")
    return options.text(given[0]) if given else None


class StoreTable:
    """One or several stores. See `LogTable`."""

    source = SOURCE

    def __init__(
        self, given: Mapping[str, str], env: Env = DEFAULT_ENV, look: Look | None = None, *, is_new: bool = True
    ) -> None:
        """`look` decides which part of each store is read; by default all of it is. What the
        options name must be there, unless this goes on with a read that has begun before, which is
        not `is_new`."""
        options = Options(SOURCE, given, OPTIONS, OF_OTHERS)
        self.read = ReadOptions.of(options)
        env = self.read.env if self.read.storage else env
        self.options = MessageOptions.of(options)
        self._settings: dict[str, Any] = options.settings(FORMAT)
        paths = find_paths(options, env)
        names = options.names("brokerName") or different_names(paths)
        if len(names) != len(paths):
            raise options.wrong("brokerName", f"give one name for each of the {len(paths)} stores")
        self.stores = []
        self.notes = options.times_in_seconds()
        unknown: list[dict[Name, MissingFileError]] = []
        for path, name in zip(paths, names, strict=True):
            with self._open(path, env) as snapshot:
                if is_new:
                    unknown.append(unknown_names(snapshot, self.options.named))
                    self.notes += require_ranges(snapshot, self.read, self.options.ranges_without(unknown[-1]))
                is_fast = self.read.mode == FAILFAST
                frozen = freeze(snapshot, path, name, fail_fast=is_fast) if look is None else look(snapshot, path, name)
                self.stores.append(frozen)
        require_known(unknown)

    @property
    def columns(self) -> tuple[SourceColumn, ...]:
        """All columns."""
        return self.read.available(COLUMNS)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of a DataFrame whose user asks for none."""
        return self.read.names(NAMES)

    def _open(self, path: str, env: Env) -> StoreSnapshot:
        env = self.read.env if self.read.storage else env
        snapshot: StoreSnapshot = open_snapshot(SOURCE, path, FORMAT, self._settings, env)
        return snapshot

    # -- planning ---------------------------------------------------------------------------------
    def is_exact(self, condition: Condition) -> bool:
        """Whether a condition is applied exactly. None is if rows about damage are wanted, because
        Spark must leave those out by itself."""
        if self.read.mode != FAILFAST:
            return False
        column, operation = condition.column, condition.operation
        if not is_usable(condition):
            return False
        if column == "brokerName" or (operation == plain.IS_NOT_NULL and column in NEVER_NULL):
            return True
        if column in ("topic", "queueId"):
            return operation == plain.EQUAL or (operation == plain.IN and column == "queueId")
        return column in _RANGES and operation in _COMPARISONS

    def plan(self, reads: tuple[str, ...], wanted: Conditions, env: Env = DEFAULT_ENV) -> TablePlan:
        """Plans a read."""
        columns = tuple(dict.fromkeys((*(reads or ("physical_offset",)), *self.options.times.needed_columns)))
        total = sum(store.end - store.begin for store in self.stores)
        plan = TablePlan(notes=[*self.notes, *([_RANGES_NOTE] if self.options.ranges else [])])
        for store in self.stores:
            if self.read.mode == FAILFAST and store.damage:
                raise with_hint(store.damage[0])
            plan.damage += store.damage
            with self._open(store.path, env) as snapshot:
                if snapshot.commit_log.min_offset > store.begin:
                    what = f"{store.path}: messages before {snapshot.commit_log.min_offset} were removed meanwhile"
                    plan.notes.append(require_no_loss(self.read, what))
                self._plan_store(plan, store, snapshot, columns, wanted, partition_bytes(self.read, total))
        return plan

    def _plan_store(
        self,
        plan: TablePlan,
        store: FrozenStore,
        snapshot: StoreSnapshot,
        columns: tuple[str, ...],
        wanted: Conditions,
        split_bytes: int,
    ) -> None:
        found = self.read_filter(store, wanted)
        used = 0
        for begin, end in store.runs if found is not None else ():
            assert found is not None
            first, last = highest(begin, found.begin_offset), lowest(end, found.end_offset)
            assert first is not None
            assert last is not None
            if first < last:
                part = snapshot.plan_read(
                    replace(found, begin_offset=first, end_offset=last),
                    columns=columns,
                    split_bytes=split_bytes,
                    time_slack_ms=self.options.slack_ms,
                    known_offsets=(store.begin,),
                )
                used += len({split.file.path for split in part.splits})
                plan.parts += [
                    StorePart(split, store, self.options.times, self.options.raw_bodies, self.read.fail_on_data_loss)
                    for split in part.splits
                ]
        files = [file for file in snapshot.commit_log.files if file.size_bytes and file.start_offset < store.end]
        plan.total_files += len(files)
        plan.total_bytes += store.end - store.begin
        plan.pruned_files += len(files) - used

    def read_filter(self, store: FrozenStore, wanted: Conditions) -> ReadFilter | None:
        """Returns the filter for one store, by the options and the conditions; None if no message
        of the store is wanted. `begin_offset` and `end_offset` are None if nothing bounds them."""
        if not wanted.hold("brokerName", store.broker_name):
            return None
        return narrowed(self.options.read_filter(), of_format(COLUMNS, wanted))
