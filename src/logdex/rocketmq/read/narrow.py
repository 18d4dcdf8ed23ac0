"""A filter made narrower by the conditions of a query, which are about the columns of the messages.

A read plan needs no condition: it may leave out a message for which one does not hold, and every
other message is in it. So a condition that `ReadFilter` cannot express is ignored here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from logdex.frames.conditions import Condition, Conditions, highest, lowest
from logdex.primitives.text import to_bytes
from logdex.rocketmq.read.read_filter import ReadFilter

KEY = "key"
"""The name, in conditions, of any of a message's keys. No column has it."""


def narrowed(wanted: ReadFilter, conditions: Conditions) -> ReadFilter | None:
    """Returns a filter for messages that pass `wanted` and for which the conditions may hold, None
    if there are none.

    A key, or else a unique key, is looked up in the IndexFiles if the topic is known. Those have no
    entry for messages that were rolled back.
    """
    conditions = Conditions(tuple(filter(is_usable, conditions.all)))
    topics = _texts(conditions, "topic", None if wanted.topic is None else frozenset([wanted.topic]))
    tags = _texts(conditions, "tags", wanted.tags)
    queues = conditions.values("queue_id")
    if wanted.queue_ids is not None:
        queues = wanted.queue_ids if queues is None else wanted.queue_ids & queues
    if any(each is not None and not each for each in (topics, tags, queues)):
        return None
    topic = _only(topics)
    begin, end = _half_open(conditions, "physical_offset")
    begin_queue, end_queue = _half_open(conditions, "queue_offset")
    begin_ms, end_ms = conditions.bounds("store_timestamp_ms")
    return replace(
        wanted,
        topic=topic,
        queue_ids=queues,
        begin_offset=highest(begin, wanted.begin_offset),
        end_offset=lowest(end, wanted.end_offset),
        begin_queue_offset=highest(begin_queue, wanted.begin_queue_offset),
        end_queue_offset=lowest(end_queue, wanted.end_queue_offset),
        begin_ms=highest(begin_ms, wanted.begin_ms),
        end_ms=lowest(end_ms, wanted.end_ms),
        tags=tags,
        key=wanted.key if wanted.key is not None or topic is None else _key(conditions),
    )


def is_usable(condition: Condition) -> bool:
    """Whether the texts of a condition are those of single stored bytes. A backslash in a column
    may stand for a byte that is not UTF-8."""
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    return not any(isinstance(value, str) and ("\\" in value or not value) for value in values)


def _texts(conditions: Conditions, column: str, wanted: frozenset[bytes] | None) -> frozenset[bytes] | None:
    found = conditions.values(column)
    if found is None:
        return wanted
    stored = frozenset(to_bytes(text) for text in found)
    return stored if wanted is None else stored & wanted


def _half_open(conditions: Conditions, column: str) -> tuple[int | None, int | None]:
    first, last = conditions.bounds(column)
    return first, None if last is None else last + 1


def _only(values: Iterable[Any] | None) -> Any:
    found = [*(values or ())]
    return found[0] if len(found) == 1 else None


def _key(conditions: Conditions) -> bytes | None:
    keys = conditions.values(KEY)
    key: str | None = _only(conditions.values("unique_key") if keys is None else keys)
    return None if key is None else to_bytes(key)
