"""The conversion of Kafka partitions to a RocketMQ store: one task, because a store has one log.

The records of all partitions are put in the order of their times, so that the store times of the
new log rise as far as those of each partition do.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from logdex.convert.sources.kafka import LogDirSource, LogPart, below_log_start, unless_deleted
from logdex.convert.sources.source import SourcePlan, read_one_log
from logdex.convert.translate.to_rocketmq import MadeMessage, message_of
from logdex.errors import LogdexError, UsageError
from logdex.io.env import Env
from logdex.jobs.tasks import Count
from logdex.kafka.columns.record_columns import RECORD_COLUMNS
from logdex.kafka.directory.log_dir import KafkaLogDir
from logdex.kafka.directory.partition_files import is_log_directory
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.files.reader_positions import read_positions
from logdex.kafka.internal_topics.consumer_offsets import ConsumerOffsets
from logdex.kafka.read.committed import NOTHING_ABORTED
from logdex.kafka.read.record_scan import records_of
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.primitives.shown import counted
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import PutMessageStatus

SPLIT_BYTES = 64 << 20
_MESSAGE_SIZE_MAX = 1 << 27
_DISPATCH_MESSAGES = 10_000
Commits = dict[TopicPartition, list[tuple[int, str]]]
"""The committed offsets of each partition, in rising order, each with its group."""


@dataclass(slots=True)
class ConvertedLogs:
    """What the task has written into a folder of its own. `offsets` are those of the groups, by
    topic and queue."""

    folder: str
    messages: int = 0
    size_bytes: int = 0
    queues: int = 0
    offsets: dict[str, dict[tuple[bytes, int], int]] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def committed(source: LogDirSource, notes: list[str], env: Env) -> Commits:
    """Returns the offsets that groups have committed, and those of named readers, each of which
    becomes a group. Adds to `notes` what is left out of them."""
    found: Commits = {}
    if is_log_directory(source.path, env=env) or env.is_dir(source.path):
        try:
            offsets = KafkaLogDir(source.path, env=env).consumer_offsets()
        except LogdexError:
            offsets = ConsumerOffsets()
        notes += [f"{problem}: what groups have committed there is not taken over" for problem in offsets.problems]
        for (group, place), commit in offsets.offsets.items():
            found.setdefault(place, []).append((commit.offset, group))
    _add_readers(source, found, notes, env)
    return {place: sorted(commits) for place, commits in found.items()}


def _add_readers(source: LogDirSource, found: Commits, notes: list[str], env: Env) -> None:
    problems: list[LogdexError] = []
    with open_kafka(source.path, env=env, **source.settings) as snapshot:
        for each in source.partitions(snapshot):
            if each.path != each.directory:  # one file is not what its partition's readers read
                continue
            commits = found.setdefault(TopicPartition(each.topic, each.partition), [])
            groups = {group for _, group in commits}
            for name, position in read_positions(each.directory, problems, env=env).items():
                if name in groups:
                    notes.append(f"{each.path}: the reader {name} left out, because a group has its name")
                else:
                    commits.append((position, name))
    notes += [f"{problem.message}: not taken over" for problem in problems]


def convert_logs(
    home: str, settings: Mapping[str, Any], env: Env, source: LogDirSource, attempt: str, count: Count
) -> ConvertedLogs:
    """The task: puts the records of all partitions into a new store, and does so again where one is
    truncated meanwhile."""
    folder = f"{home}/{attempt}"

    def read() -> tuple[list[SourcePlan], ConvertedLogs]:
        if env.is_dir(folder):
            env.remove_tree(folder)
        plan = source.plan(("topic", "partition", *RECORD_COLUMNS), {}, SPLIT_BYTES, env)
        return [plan], _convert(folder, source, plan, settings, env, count)

    return read_one_log(source, read, env)


def _convert(
    folder: str, source: LogDirSource, plan: SourcePlan, settings: Mapping[str, Any], env: Env, count: Count
) -> ConvertedLogs:
    done = ConvertedLogs(folder)
    done.losses += plan.losses + plan.waiting
    done.notes += plan.notes + _below_log_starts(source, env)
    done.size_bytes = plan.size_bytes
    parts: list[LogPart] = [part for part in plan.parts if isinstance(part, LogPart)]
    numbers: dict[str, int] = {}
    for part in parts:
        numbers[part.split.topic] = max(part.split.partition, numbers.get(part.split.topic, 0))
    waiting, aborted = committed(source, done.notes, env), Counter[str]()
    with _Store(done, numbers, settings, env) as store:
        streams = [
            _records(list(group), done, aborted, count, env)
            for _, group in groupby(parts, lambda part: (part.split.topic, part.split.partition))
        ]
        for _, place, offset, made in heapq.merge(*streams, key=lambda row: row[0]):
            store.put(place, offset, made, waiting.get(place, []))
        store.end(waiting, plan.positions)
    done.notes += [
        f"{place}: {counted(number, 'record')} of aborted transactions left out, which no consumer reads"
        for place, number in sorted(aborted.items())
    ]
    return done


def _below_log_starts(source: LogDirSource, env: Env) -> list[str]:
    """Tells of the records that no consumer reads because they are below a log start offset."""
    count = partial(below_log_start, wanted=source.wanted)
    with open_kafka(source.path, env=env, **source.settings) as snapshot:
        found = [unless_deleted(partition, count) for partition in source.partitions(snapshot)]
    return [each for each in found if each is not None]


_Row = tuple[int, TopicPartition, int, MadeMessage]


def _records(
    parts: list[LogPart], done: ConvertedLogs, aborted: Counter[str], count: Count, env: Env
) -> Iterator[_Row]:
    """Yields (time, partition, offset, message) of the records of one partition. Those of aborted
    transactions are counted."""
    for part in parts:
        place = TopicPartition(part.split.topic, part.split.partition)
        everything = replace(part, split=replace(part.split, aborted=NOTHING_ABORTED))
        for batch in everything.batches(done.losses.append, env):
            dropped = part.split.aborted.rows(batch)
            if dropped.any():
                aborted[f"{place.topic}-{place.partition}"] += int(dropped.sum())
            for record in records_of(batch.filter(pa.array(~dropped)).select(RECORD_COLUMNS)):
                made = message_of(record, place.topic, max(place.partition, 0))
                yield made.store_timestamp_ms, place, record.offset, made
            count(len(batch), 0)
        count(0, part.size_bytes)


class _Store:
    """The new store, and how many messages each partition has given it."""

    def __init__(self, done: ConvertedLogs, numbers: dict[str, int], settings: Mapping[str, Any], env: Env) -> None:
        self._done = done
        self._numbers = numbers
        self._now_ms = 0
        self._refused: Counter[str] = Counter()
        self._counts: Counter[TopicPartition] = Counter()
        self._queues: dict[TopicPartition, tuple[bytes, int]] = {}
        self._topics: set[str] = set()
        self._lost_topics: set[tuple[str, str]] = set()
        """A partition's topic, and the one of its messages, which cannot name a folder."""
        self._store = MessageStore.open(
            done.folder,
            env=env,
            clock_ms=lambda: self._now_ms,
            background=False,
            unique_keys=False,
            max_message_size=_MESSAGE_SIZE_MAX,
            **settings,
        )

    def put(self, place: TopicPartition, offset: int, made: MadeMessage, commits: list[tuple[int, str]]) -> None:
        """Puts one message. The offsets at or below its own that groups have committed are known
        then."""
        message = made.message
        topic = message.topic if isinstance(message.topic, str) else message.topic.decode()
        queue = topic.encode(), message.queue_id or 0
        if made.lost_topic is not None:
            self._lost_topics.add((topic, made.lost_topic))
        if commits and commits[0][0] <= offset:
            self._note(commits, offset, queue, self._counts[place])
        if topic not in self._topics:
            self._store.create_topic(topic, self._numbers[place.topic] + 1)
            self._topics.add(topic)
        self._now_ms = made.store_timestamp_ms
        try:
            status = self._store.put_message(message).status
        except UsageError as error:
            self._refused[error.message] += 1
            return
        if status is not PutMessageStatus.PUT_OK:
            self._refused[status.name] += 1
            return
        self._counts[place] += 1
        self._queues[place] = queue
        self._done.messages += 1
        if self._done.messages % _DISPATCH_MESSAGES == 0:
            self._store.dispatch()

    def _note(self, commits: list[tuple[int, str]], offset: int, queue: tuple[bytes, int], translated: int) -> None:
        known = bisect_left(commits, (offset + 1,))
        for _, group in commits[:known]:
            self._done.offsets.setdefault(group, {})[queue] = translated
        del commits[:known]

    def end(self, waiting: Commits, converted: Collection[str]) -> None:
        """Notes the committed offsets behind the last records of the partitions that are
        converted."""
        for place, commits in waiting.items():
            if place in self._queues:
                self._note(commits, 1 << 62, self._queues[place], self._counts[place])
            elif commits:
                groups = ", ".join(group for _, group in commits)
                name = f"{place.topic}-{place.partition}"
                why = "has no records" if name in converted else "is not converted"
                self._done.notes.append(f"{groups}: offsets of {name}, which {why}")
        self._done.notes += [
            f"the topic {lost!r} stays {topic}: no folder of a store can be named {lost!r}"
            for topic, lost in sorted(self._lost_topics)
        ]
        self._done.queues = len(self._queues)
        self._done.losses += [
            f"{counted(number, 'record', 'records')}: {what}" for what, number in sorted(self._refused.items())
        ]

    def __enter__(self) -> _Store:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()
