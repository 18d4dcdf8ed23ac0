"""Light message queues (``%LMQ%…``): further queues in which a message has entries, which its
properties INNER_MULTI_DISPATCH and INNER_MULTI_QUEUE_OFFSET name.

Source: ``docs/formats/consume-queue.md``; ConsumeQueue.multiDispatchLmqQueue, MultiDispatchUtils.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK, SYS_FLAG_TRANSACTION_MASK
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message.stored_message import StoredMessage

if TYPE_CHECKING:  # the scan loads Numba, which a read of one queue does not need
    from logdex.rocketmq.scan.topic_table import TopicTable
    from logdex.rocketmq.scan.window import Window

LIGHT_QUEUE_PREFIX = b"%LMQ%"
_NOT_DISPATCHED = (b"%RETRY%", b"rmq_sys_")
_SCHEDULE_TOPIC = b"SCHEDULE_TOPIC_XXXX"
_LONG = re.compile(rb"[+-]?[0-9]{1,19}")

LightRun = tuple[int, npt.NDArray[np.int64], npt.NDArray[np.uint8]]


def light_runs(window: Window, table: TopicTable) -> list[LightRun]:
    """Returns (queue number, queue offsets, entries) per light queue in which messages of the
    window have entries, in log order within each. New queues are added to the table."""
    columns = window.columns
    rows = np.flatnonzero(columns.is_dispatched[: window.count])
    places: dict[int, tuple[list[int], list[int]]] = {}
    for row in rows.tolist():
        topic, queue_id = table.queues[int(columns.queue[row])]
        if int(columns.sys_flag[row]) & SYS_FLAG_TRANSACTION_MASK in (SYS_FLAG_PREPARED, SYS_FLAG_ROLLBACK):
            continue
        for name, number_in_queue in named_queues(topic, properties_of(window, row)):
            number = table.number_of(name, light_queue_id(name, queue_id))
            taken, offsets = places.setdefault(number, ([], []))
            taken.append(row)
            offsets.append(number_in_queue)
    return [
        (number, np.array(offsets, np.int64), _entries(window, np.array(taken, np.intp)))
        for number, (taken, offsets) in places.items()
    ]


def named_queues(topic: bytes, properties: dict[bytes, bytes]) -> list[tuple[bytes, int]]:
    """Returns (name, queue offset) per further queue that a message's properties name.

    As for the engine, there are none if the two properties do not have as many parts, if an offset
    is no number, and for retries, delayed messages and the broker's own topics.
    """
    names, offsets = properties.get(props.MULTI_DISPATCH), properties.get(props.MULTI_QUEUE_OFFSET)
    if not names or not names.strip() or not offsets or not admits_further_queues(topic):
        return []
    parts, numbers = split_names(names), split_names(offsets)
    if len(parts) != len(numbers) or not all(_LONG.fullmatch(number) for number in numbers):
        return []
    found = [(part, int(number)) for part, number in zip(parts, numbers, strict=True) if b"/" not in part]
    return [(name, number) for name, number in found if -(1 << 63) <= number < 1 << 63]


def is_of_queue(message: StoredMessage, topic: bytes, queue_id: int) -> bool:
    """Whether a message has an entry in the queue with this folder: its own, or a further one."""
    folder = queue_folder(topic, queue_id)
    if queue_folder(message.topic, message.queue_id) == folder:
        return True
    named = named_queues(message.topic, message.properties)
    return any(queue_folder(name, light_queue_id(name, message.queue_id)) == folder for name, _ in named)


def light_queue_id(name: bytes, queue_id: int) -> int:
    """Returns the queue id of the further queue `name` of a message with the id `queue_id`."""
    return 0 if name.startswith(LIGHT_QUEUE_PREFIX) else queue_id


def admits_further_queues(topic: bytes) -> bool:
    """Whether messages of a topic are dispatched to further queues: not retries, delayed messages
    and those of the broker's own topics."""
    return not topic.startswith(_NOT_DISPATCHED) and topic != _SCHEDULE_TOPIC


def split_names(value: bytes) -> list[bytes]:
    """Splits at commas as Java does: empty parts at the end do not count."""
    parts = value.split(b",")
    while parts and not parts[-1]:
        parts.pop()
    return parts


def properties_of(window: Window, row: int) -> dict[bytes, bytes]:
    """Returns the properties of a message of the window."""
    columns = window.columns
    start = int(window.places(np.array([row]))[0]) + int(columns.properties_at[row])
    raw = window.data[start : start + int(columns.properties_length[row])].tobytes()
    return props.parse_properties(raw)


def _entries(window: Window, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.uint8]:
    columns = window.columns
    entries = np.empty(len(rows), CONSUME_QUEUE_ENTRY.dtype)
    entries["physical_offset"], entries["size"] = columns.position[rows], columns.size[rows]
    entries["tags_code"] = columns.tags_code[rows]
    return entries.view(np.uint8)
