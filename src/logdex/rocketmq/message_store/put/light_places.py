"""The places of a message in light queues: its property INNER_MULTI_DISPATCH names the queues, and
the store writes INNER_MULTI_QUEUE_OFFSET when it knows the message's place in each.

A caller's INNER_MULTI_QUEUE_OFFSET is replaced, because the dispatch goes by it: two messages with
one place in a queue would be a store that no dispatch can derive.

Source: LmqDispatch.wrapLmqDispatch, updateLmqOffsets, MixAll.topicAllowsLMQ; MultiDispatch
(4.9), which numbers queues of other names too. The engine does so with enableLmq and
enableMultiDispatch.
"""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import UsageError
from logdex.rocketmq.consume_queue.light_queues import admits_further_queues, light_queue_id, split_names
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.own_topics import HALF_TOPIC_NAME

_WAIT = b"WAIT"


class LightPlaces(NamedTuple):
    """The light queues of a message whose places are not known yet. Its properties are stored as
    `before`, the places, and `after`."""

    queues: tuple[tuple[bytes, int], ...]
    before: bytes
    after: bytes

    def properties(self, offsets: list[int]) -> bytes:
        """The stored properties with the message's place in each queue."""
        return b"%b%b%b" % (self.before, _joined(offsets), self.after)


def reserve_places(pairs: dict[bytes, bytes], topic: bytes, queue_id: int) -> tuple[tuple[bytes, int], ...]:
    """Sets INNER_MULTI_QUEUE_OFFSET among the properties of a message that is put into a queue, so
    that it has its place in their order. Returns the light queues, none for a message that is not
    dispatched to any.

    Raises `UsageError` for a name that cannot name a folder. As for the engine, one with a slash in
    it counts, but has no queue. A half message is in no light queue before it is committed, so it
    loses the property; the engine lets consumers of light queues see half messages.
    """
    names = split_names(pairs[props.MULTI_DISPATCH].strip())
    if topic == HALF_TOPIC_NAME:
        pairs.pop(props.MULTI_QUEUE_OFFSET, None)
    if topic == HALF_TOPIC_NAME or not names or not admits_further_queues(topic):
        return ()
    queues = tuple((name, light_queue_id(name, queue_id)) for name in names)
    for queue in queues:
        if b"/" not in queue[0] and queue_folder(*queue) is None:
            raise UsageError(f"the light queue {queue[0]!r} cannot name a folder", hint="name it as in %LMQ%orders")
    pairs.pop(_WAIT, None)
    pairs[props.MULTI_QUEUE_OFFSET] = _joined([0] * len(queues))
    return queues


def light_places(raw: bytes, queues: tuple[tuple[bytes, int], ...]) -> LightPlaces | None:
    """Where the places stand in the stored properties `raw`, to which `reserve_places` has added
    them. None without light queues."""
    if not queues:
        return None
    sign = props.MULTI_QUEUE_OFFSET + props.NAME_VALUE_SEPARATOR
    at = 0 if raw.startswith(sign) else raw.index(props.PROPERTY_SEPARATOR + sign) + 1
    begin = at + len(sign)
    return LightPlaces(queues, raw[:begin], raw[begin + len(_joined([0] * len(queues))) :])


def _joined(offsets: list[int]) -> bytes:
    return b",".join([b"%d" % offset for offset in offsets])
