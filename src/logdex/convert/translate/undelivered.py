"""Messages that are in no consumer's queue: an engine keeps them until it delivers them, they are
notes of transactions, or they take the place of what `recover` could not save. Put into another
store or log they would be delivered."""

from __future__ import annotations

from collections import Counter

from logdex.primitives.shown import counted
from logdex.rocketmq.message.own_topics import UNDELIVERED_TOPICS
from logdex.rocketmq.recover.placeholder import is_lost_topic

SYSTEM_TOPICS = frozenset(topic.decode() for topic in UNDELIVERED_TOPICS)
"""The topics in which a RocketMQ engine keeps what it has yet to deliver."""


class Undelivered:
    """How many messages are left out, by the reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._placeholders = 0

    def of_topic(self, topic: str, count: int) -> bool:
        """Whether a topic is one of `SYSTEM_TOPICS`, so that its messages are left out."""
        if topic not in SYSTEM_TOPICS:
            return False
        self._counts[f"of {topic}, in which an engine keeps what it has yet to deliver"] += count
        return True

    def in_no_queue(self, topic: str, count: int) -> None:
        """Counts messages that an engine puts into no queue: placeholders, half messages, and notes
        of rollbacks."""
        if is_lost_topic(topic.encode()):
            self._placeholders += count
        else:
            self._counts["left out: of transactions, which are in no queue"] += count

    def of_negative_queues(self, count: int) -> None:
        """Counts messages whose queue can be no partition."""
        self._counts["of queues with negative numbers"] += count

    @property
    def notes(self) -> list[str]:
        """What is no loss of the source, as lines."""
        return placeholder_notes(self._placeholders)

    @property
    def losses(self) -> list[str]:
        """A line for each reason."""
        return [f"{counted(number, 'message')} {what}" for what, number in sorted(self._counts.items()) if number]


def placeholder_notes(count: int) -> list[str]:
    """Returns what is said of placeholders that are left out."""
    return [f"{counted(count, 'placeholder')} left out: logdex recover had lost bytes there"] if count else []
