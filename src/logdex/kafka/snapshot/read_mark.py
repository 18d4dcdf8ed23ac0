"""By which ids and which batch a reader that goes on later knows a partition again.

An offset says nothing of the log that it is of: a topic that was deleted and created again, and a
directory of another cluster, have other records before it. Ids decide where both sides have them.
Without them the batch that was read last does; a compaction may have removed it, or written it
anew, and a change of leader may have replaced it with one of a later epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from logdex.errors import CorruptError
from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.directory.ids import PartitionIds
from logdex.kafka.read.follow.seen_batches import SeenBatch, find_batch, is_in_segment
from logdex.kafka.read.steady import PartitionView, steadily
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.layout.kafka import MAGIC_V2


class Difference(NamedTuple):
    """How a partition differs from what was read of it, in words. If it is not another log, what
    was read has been replaced in the same one."""

    what: str
    is_another: bool


@dataclass(frozen=True, slots=True)
class ReadMark:
    """What is known of a partition that was read: its ids, None where no file states them, and the
    last batch, with `last_offset` -1 if there was none."""

    cluster_id: str | None = None
    topic_id: str | None = None
    base_offset: int = -1
    last_offset: int = -1
    crc: int = 0
    leader_epoch: int = -1

    @staticmethod
    def of(partition: PartitionSnapshot, end: int) -> ReadMark:
        """Returns the mark of a partition that was read up to the offset `end`."""
        ids = PartitionIds.of(partition.directory, partition.env)
        batch = steadily(partition, lambda view: _last_batch(view, end))
        if batch is None:
            return ReadMark(*ids)
        return ReadMark(*ids, batch.base_offset, batch.last_offset, batch.crc, batch.leader_epoch)

    @staticmethod
    def of_json(given: Mapping[str, Any]) -> ReadMark:
        """Returns a mark that was kept as JSON, without what is missing or malformed there."""
        ids = [given.get(name) for name in ("cluster_id", "topic_id")]
        numbers = [given.get(name) for name in ("base_offset", "last_offset", "crc", "leader_epoch")]
        batch = numbers if all(isinstance(number, int) for number in numbers) else []
        return ReadMark(*(each if isinstance(each, str) else None for each in ids), *batch)  # type: ignore[arg-type]

    def difference(self, partition: PartitionSnapshot) -> Difference | None:
        """Returns how a partition differs from the one that was marked, None if nothing shows that
        it does."""
        cluster_id, topic_id = PartitionIds.of(partition.directory, partition.env)
        has_topic_id = None not in (topic_id, self.topic_id)
        if has_topic_id and topic_id != self.topic_id:
            return Difference(f"its topic has the id {topic_id} now, and had {self.topic_id}", True)
        if not has_topic_id and None not in (cluster_id, self.cluster_id) and cluster_id != self.cluster_id:
            return Difference(
                f"it is of the cluster {cluster_id}, and what was read was of the cluster {self.cluster_id}", True
            )
        if self.last_offset < 0:
            return None
        return steadily(partition, lambda view: self._other_batch(view, is_same_topic=has_topic_id))

    def _other_batch(self, view: PartitionView, *, is_same_topic: bool) -> Difference | None:
        below = [segment for segment in view.segments if segment.base_offset <= self.last_offset]
        header = find_batch(below[-1], self.last_offset)[1] if below else None
        if header is None or header.base_offset > self.last_offset or header.magic < MAGIC_V2:
            return None  # removed, or so old that a compaction writes it with other bounds
        try:
            below[-1].log.batch_at(header.position)
        except CorruptError:
            return None
        where = f"the batch at offsets {self.base_offset} to {self.last_offset}"
        if header.leader_epoch > self.leader_epoch >= 0:
            by = f"leader epoch {header.leader_epoch}"
            return Difference(f"{where} was replaced since it was read, under {by}", False)
        seen = SeenBatch(self.base_offset, self.last_offset, self.crc)
        is_same = header.leader_epoch == self.leader_epoch and is_in_segment(
            seen, below[-1], is_last=False, was_cut=False
        )
        if is_same:
            return None
        if is_same_topic:
            return Difference(f"{where} was replaced since it was read", False)
        return Difference(f"{where} is not the one that was read", True)


def _last_batch(view: PartitionView, end: int) -> RecordBatch | None:
    """Returns the last batch that begins before an offset, None if there is no whole one."""
    for segment in reversed(view.segments):
        if segment.base_offset >= end:
            continue
        passed, found = find_batch(segment, end - 1)
        header = found if found is not None and found.base_offset < end else passed
        if header is not None:
            try:
                return segment.log.batch_at(header.position)
            except CorruptError:
                return None
    return None
