"""The conversion of a RocketMQ store to a Kafka log directory: a task per topic, and the committed
offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.partition_writer import PartitionWriter
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.sources.source import SourcePart, SourcePlan, read_one_log
from logdex.convert.translate.names import kafka_topic
from logdex.convert.translate.to_kafka import READS, records_of
from logdex.convert.translate.undelivered import Undelivered
from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.jobs.tasks import Count, Runner, group_parts, shared
from logdex.kafka.batch.record import Compression
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.rocketmq.columns.plain_flags import are_queued
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

SPLIT_BYTES = 64 << 20
TASK_BYTES = 256 << 20
Place = tuple[str, int]
"""A topic and the number of a queue."""


@dataclass(slots=True)
class Converted:
    """What a task has written into a folder of its own. By the topic and number of each queue,
    `begins` are the first offsets of the partition, and `shifts` by how much its last offsets are
    higher than those of the queue."""

    folder: str
    plan: SourcePlan
    messages: int = 0
    size_bytes: int = 0
    begins: dict[Place, int] = field(default_factory=dict)
    shifts: dict[Place, int] = field(default_factory=dict)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    escaped: int = 0
    """How many messages have properties with a backslash and an x, which may stand for a byte that
    is not UTF-8."""


def convert_topics(
    home: str, source: StoreSource, compression: Compression, runner: Runner, env: Env
) -> list[Converted]:
    """Writes the partitions of all topics into folders of their own. Where the log is cut
    meanwhile, that is done again, as the queues' offsets come to stand for other messages, and two
    topics would be of two logs."""
    done: list[Converted] = []

    def read() -> tuple[list[SourcePlan], list[Converted]]:
        nonlocal done
        for folder in filter(env.is_dir, [each.folder for each in done]):
            env.remove_tree(folder)
        plan, topics = _topics_of(source, runner, env)
        task = partial(convert_topic, home, source, compression, len(topics), env)
        done = runner.run("logdex convert", task, topics)
        return [plan, *(each.plan for each in done)], done

    return read_one_log(source, read, env)


def _topics_of(source: StoreSource, runner: Runner, env: Env) -> tuple[SourcePlan, list[bytes | None]]:
    """Returns the topics of which each is a task, and by which plan they were found: those of the
    log's messages, which may be more than have ConsumeQueues. Without any ConsumeQueues a single
    None, for all that the log has, because each task would scan the whole log then."""
    if source.wanted.topic is not None:
        return SourcePlan(), [source.wanted.topic]
    with StoreSnapshot(source.path, env=env, **source.settings) as snapshot:
        has_queues = not snapshot.commit_log.is_one_file and bool(snapshot.queues())
    if not has_queues:
        return SourcePlan(), [None]
    plan = source.plan(("topic",), {}, SPLIT_BYTES, env)
    groups = [tuple(group) for group in group_parts(plan.parts, TASK_BYTES)]
    found = set().union(*runner.run("logdex convert: topics", partial(find_topics, env), groups))
    is_text = not any("\\" in topic for topic in found)  # else it may stand for a byte that is not UTF-8
    return plan, [topic.encode() for topic in sorted(found)] if found and is_text else [None]


def find_topics(env: Env, parts: tuple[SourcePart, ...], attempt: str, count: Count) -> set[str]:
    """A task: returns the topics of the messages in some parts. The task that converts them tells
    what is lost."""
    found: set[str] = set()
    for part in parts:
        for batch in part.batches(lambda _: None, env):
            found.update(batch.column("topic").unique().to_pylist())
    return found


def convert_topic(
    home: str,
    source: StoreSource,
    compression: Compression,
    tasks: int,
    env: Env,
    topic: bytes | None,
    attempt: str,
    count: Count,
) -> Converted:
    """One of some tasks: writes the partitions of a topic, or of all, into a folder of its own."""
    count = shared(count, tasks)  # each of them reads the log for its topic
    wanted = source.wanted if topic is None else replace(source.wanted, topic=topic)
    plan = replace(source, wanted=wanted).plan(READS, {}, SPLIT_BYTES, env)
    done = Converted(f"{home}/{attempt}", plan)
    done.losses += plan.losses
    done.notes += plan.notes
    done.size_bytes = plan.size_bytes
    left_out = Undelivered()
    with PartitionWriter(done.folder, compression=compression, env=env) as writer:
        queues = _Queues(writer, left_out)
        for part in plan.parts:
            for batch in part.batches(done.losses.append, env):
                done.messages += queues.add(batch)
                count(len(batch), 0)
            count(0, part.size_bytes)
        done.begins, done.shifts = queues.by_queue(writer.begins), queues.by_queue(writer.shifts)
        done.escaped = queues.escaped
    done.losses += left_out.losses
    done.notes += left_out.notes
    return done


class _Queues:
    """Divides batches of the log by queue."""

    def __init__(self, writer: PartitionWriter, left_out: Undelivered) -> None:
        self._writer = writer
        self._left_out = left_out
        self.escaped = 0
        self._names: dict[str, str] = {}
        """The topic of each name in Kafka."""

    def add(self, batch: pa.RecordBatch) -> int:
        """Appends the messages that consumers can read. Returns how many these are."""
        queued = are_queued(batch.column("sys_flag").to_numpy())
        if not queued.all():
            for each in pc.value_counts(batch.column("topic").filter(pa.array(~queued))).to_pylist():
                self._left_out.in_no_queue(each["values"], each["counts"])
            batch = batch.filter(pa.array(queued))
        topics = batch.column("topic")
        codes, queue_ids = topics.indices.to_numpy().astype(np.int64), batch.column("queue_id").to_numpy()
        kinds, inverse = np.unique((codes << 32) | queue_ids.astype(np.uint32), return_inverse=True)
        written = 0
        for number, kind in enumerate(kinds.tolist()):
            rows = batch if len(kinds) == 1 else batch.take(pa.array(np.flatnonzero(inverse == number)))
            written += self._append(topics.dictionary[kind >> 32].as_py(), kind & 0xFFFFFFFF, rows)
        return written

    def _append(self, topic: str, queue_id: int, rows: pa.RecordBatch) -> int:
        if self._left_out.of_topic(topic, len(rows)):
            return 0
        if queue_id >= 1 << 31:
            self._left_out.of_negative_queues(len(rows))
            return 0
        name = kafka_topic(topic)
        if self._names.setdefault(name, topic) != topic:
            raise UsageError(f"the topics {topic} and {self._names[name]} both become {name}", hint="give --topic")
        self._writer.append(TopicPartition(name, queue_id), *records_of(rows))
        self.escaped += count_escaped(rows.column("properties"))
        return len(rows)

    def by_queue(self, offsets: Mapping[TopicPartition, int]) -> dict[Place, int]:
        """Returns what the writer says of each partition, by the queue's topic and number."""
        return {(self._names[place.topic], place.partition): each for place, each in offsets.items()}


def count_escaped(properties: pa.MapArray) -> int:
    """Returns how many maps have a text with a backslash and an x."""
    found = [pc.match_substring(texts, "\\x").to_numpy(zero_copy_only=False) for texts in _texts(properties)]
    places = np.flatnonzero(found[0] | found[1]) + properties.offsets[0].as_py()
    return len(np.unique(np.searchsorted(properties.offsets.to_numpy(), places, "right")))


def _texts(properties: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    first, last = properties.offsets[0].as_py(), properties.offsets[-1].as_py()
    return properties.keys.slice(first, last - first), properties.items.slice(first, last - first)
