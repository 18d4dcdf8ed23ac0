"""What a consumer reads of its topics and where its offsets are kept, by its mode: a share of the
queues, with offsets in the store (CLUSTERING), or all queues, with offsets of its own
(BROADCASTING)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from logdex.primitives.text import to_bytes
from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager
from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore
from logdex.rocketmq.consuming.membership import Membership, Queue
from logdex.rocketmq.consuming.source import Source


class Share(Protocol):
    """The share of one consumer."""

    @property
    def is_own(self) -> bool:
        """Whether this process made it, and not a parent."""

    def queues(self, all_queues: Mapping[bytes, Sequence[int]]) -> frozenset[Queue]:
        """The queues that are this consumer's now."""

    def committed(self) -> Mapping[Queue, int]:
        """The offsets that were committed, by topic and queue id."""

    def start_at(self, topic: bytes, offsets: Mapping[int, int]) -> None:
        """Sets where a topic is started, unless it was started before."""

    def commit(self, offsets: Mapping[Queue, int]) -> None:
        """Commits offsets, on disk when this returns."""

    def leave(self) -> None:
        """Gives up the share."""


class GroupShare:
    """A member of a group (CLUSTERING)."""

    def __init__(self, source: Source, group: str, topics: Sequence[bytes]) -> None:
        self._group = group
        self._offsets = ConsumerOffsetManager(source.root, dialect=source.config.dialect, env=source.env)
        self._membership = Membership(source.root, group, topics, source.env)

    @property
    def is_own(self) -> bool:
        """As `Share.is_own`."""
        return self._membership.is_own

    def queues(self, all_queues: Mapping[bytes, Sequence[int]]) -> frozenset[Queue]:
        """As `Share.queues`."""
        return self._membership.share(all_queues)

    def committed(self) -> Mapping[Queue, int]:
        """As `Share.committed`."""
        group = to_bytes(self._group)
        found = self._offsets.read_settled().offsets.items()
        return {(topic, queue_id): at for (topic, own), ids in found if own == group for queue_id, at in ids.items()}

    def start_at(self, topic: bytes, offsets: Mapping[int, int]) -> None:
        """As `Share.start_at`, for the whole group."""
        self._offsets.start_at(self._group, topic, offsets)

    def commit(self, offsets: Mapping[Queue, int]) -> None:
        """As `Share.commit`."""
        self._offsets.commit_offsets(self._group, offsets)

    def leave(self) -> None:
        """As `Share.leave`."""
        self._membership.leave()


class WholeShare:
    """A consumer of all messages (BROADCASTING)."""

    is_own = True

    def __init__(self, offsets: LocalFileOffsetStore, topic: bytes) -> None:
        self._offsets, self._topic = offsets, topic

    def queues(self, all_queues: Mapping[bytes, Sequence[int]]) -> frozenset[Queue]:
        """As `Share.queues`: all of them."""
        return frozenset((topic, queue_id) for topic, ids in all_queues.items() for queue_id in ids)

    def committed(self) -> Mapping[Queue, int]:
        """As `Share.committed`."""
        return {(self._topic, queue_id): at for queue_id, at in self._offsets.read_offsets(self._topic).items()}

    def start_at(self, topic: bytes, offsets: Mapping[int, int]) -> None:
        """As `Share.start_at`."""
        if not self._offsets.read_offsets(topic):
            self._offsets.persist(topic, offsets)

    def commit(self, offsets: Mapping[Queue, int]) -> None:
        """As `Share.commit`."""
        self._offsets.persist(self._topic, {queue_id: at for (_, queue_id), at in offsets.items()})

    def leave(self) -> None:
        """Does nothing."""
