"""The committed offsets of groups, translated to the other format with the messages.

Source: ``docs/formats/config-json.md``, ``docs/formats/kafka-consumer-offsets.md``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from logdex.convert.partition_writer import PartitionWriter
from logdex.convert.sources.rocketmq import StoreSource
from logdex.convert.translate.from_logs import ConvertedLogs
from logdex.convert.translate.from_store import Place
from logdex.convert.translate.names import kafka_topic
from logdex.convert.translate.undelivered import SYSTEM_TOPICS
from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Compression
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.internal_topics.consumer_offsets import TOPIC, offset_commit, partition_for
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.files.store_files import StorePaths


def write_committed_offsets(
    source: StoreSource, begins: Mapping[Place, int], shifts: Mapping[Place, int], folder: str, now_ms: int, env: Env
) -> tuple[int, list[str], list[str]]:
    """Writes the offsets that groups have committed of the converted queues into partitions of
    `__consumer_offsets` below `folder`. Returns (number of groups, notes on offsets of
    queues that have no messages, losses).

    An offset before the first message of its queue becomes that of the message, where RocketMQ's
    consumer goes on too. With Kafka, whose consumer goes to the end of a partition by default if it
    does not have the offset, the messages between would be skipped.
    """
    commits: dict[str, list[tuple[TopicPartition, int]]] = {}
    notes: list[str] = []
    read = ConsumerOffsets.read(StorePaths(source.path).config, env=env)
    for (topic, group_name), offsets in read.offsets.items():
        name, group = (each.decode("utf-8", "backslashreplace") for each in (topic, group_name))
        for queue_id, offset in offsets.items():
            shift = shifts.get((name, queue_id))
            if shift is None:
                if name not in SYSTEM_TOPICS and source.wanted.topic in (None, topic):
                    notes.append(f"the group {group} has an offset of {name} {queue_id}, which has no messages")
                continue
            place = TopicPartition(kafka_topic(name), queue_id)
            commits.setdefault(group, []).append((place, max(offset + shift, begins[name, queue_id])))
    with PartitionWriter(folder, compression=Compression.NONE, env=env) as writer:
        for committer, places in sorted(commits.items()):
            records = [offset_commit(committer, place, offset, now_ms) for place, offset in places]
            table = pa.table(
                {
                    "key": pa.array([record.key for record in records], pa.binary()),
                    "value": pa.array([record.value for record in records], pa.binary()),
                    "timestamp_ms": pa.array([now_ms] * len(records), pa.int64()),
                }
            )
            numbers = np.arange(len(records), dtype=np.int64)
            writer.append(TopicPartition(TOPIC, partition_for(committer)), table, numbers)
    return len(commits), notes, [] if read.file.remark is None else [read.file.remark]


def put_committed_offsets(folder: str, done: ConvertedLogs, env: Env) -> list[str]:
    """Commits the offsets of groups in the new store. Returns losses."""
    manager, losses = ConsumerOffsetManager(folder, env=env), []
    for group, offsets in sorted(done.offsets.items()):
        try:
            manager.commit_offsets(group, offsets)
        except UsageError as error:
            losses.append(error.message)
    return losses
