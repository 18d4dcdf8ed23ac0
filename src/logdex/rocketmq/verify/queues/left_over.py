"""The messages without their entry, and the entries without their message, of all queues."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from logdex.jobs import look_again
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.queues.queue_disk import QueueDisk

_QUEUE_OFFSET_MAX = (1 << 62) // CONSUME_QUEUE_ENTRY.size_bytes
LEFT_OVER_MAX = 100_000
"""The maximum number of messages without their entry, and of entries without their message, that
are kept to be matched at the end."""


class OneQueue(Protocol):
    """The check of one queue. `messages` counts those that are its own."""

    folder: str
    disk: QueueDisk | None
    messages: int


@dataclass(slots=True)
class Unplaced:
    """A message whose entry is not in its place."""

    queue: OneQueue
    queue_offset: int
    path: str
    position: int
    is_passed: bool
    """Whether a higher queue offset was reached before."""
    is_zero: bool
    """Whether its place holds zeros."""

    @property
    def check(self) -> str:
        """The name of the check that finds it."""
        is_possible = 0 <= self.queue_offset <= _QUEUE_OFFSET_MAX
        return "consume-queue-entry" if is_possible and not self.is_passed else "message-queue-offset"


@dataclass(slots=True)
class Extra:
    """An entry at a place for which its queue has no message."""

    queue: OneQueue
    queue_offset: int
    physical_offset: int


@dataclass(slots=True)
class LeftOver:
    """The messages and entries that matched in no queue. `unplaced` is by physical offset. Those
    beyond `LEFT_OVER_MAX` are not kept, only counted."""

    out: Collector
    is_unclean: bool
    """Whether the store was not shut down cleanly, so that messages may have no entry yet."""
    log_was_trimmed: Callable[[int], bool] = lambda _: False
    """Whether the CommitLog file of a physical offset was removed since it was listed."""
    unplaced: dict[int, Unplaced] = field(default_factory=dict)
    extras: list[Extra] = field(default_factory=list)
    looks: int = 1000
    """How many times entries may still be looked at again."""
    behind: int = 0
    """The number of messages that were not kept and may have no entry yet."""

    def add_message(self, physical_offset: int, unplaced: Unplaced) -> None:
        """Adds a message whose entry is not in its place."""
        if len(self.unplaced) < LEFT_OVER_MAX:
            self.unplaced[physical_offset] = unplaced
        elif unplaced.queue.disk is None:
            return  # the whole queue is missing, which is one finding
        elif self.may_follow(unplaced):
            self.behind += 1
        else:
            self.out.count(unplaced.check, 1)

    def add_entry(self, extra: Extra) -> None:
        """Adds an entry at a place for which its queue has no message."""
        if len(self.extras) < LEFT_OVER_MAX:
            self.extras.append(extra)
        else:
            self.out.count("consume-queue-extra-entry", 1)

    def forget(self, queue: OneQueue) -> None:
        """Drops what was added of a queue."""
        self.unplaced = {at: each for at, each in self.unplaced.items() if each.queue is not queue}
        self.extras = [each for each in self.extras if each.queue is not queue]

    def look_again(self) -> bool:
        """Whether a broker may be writing an entry that differs, so that it is worth another look.
        Waits for it. This is so a number of times."""
        if not self.is_unclean or not self.looks:
            return False
        self.looks -= 1
        look_again.pause(0.1)
        return True

    def was_trimmed(self, file: CommitLogFile | None) -> bool:
        """Whether a broker has removed a file of the log meanwhile, and perhaps its messages'
        entries."""
        return self.is_unclean and file is not None and self.log_was_trimmed(file.start_offset)

    def may_follow(self, unplaced: Unplaced) -> bool:
        """Whether the entry of a message may be missing after an unclean shutdown."""
        return self.is_unclean and unplaced.is_zero and not unplaced.is_passed
