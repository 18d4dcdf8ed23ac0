"""The topics and queues that a scan has found, numbered in that order, and the lookup tables that
the kernel reads."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kernels.rocketmq.message_scan import SCHEDULE_TOPIC
from logdex.kernels.rocketmq.name_table import TOPIC_RECORD, LookupTables, mix, topic_place
from logdex.primitives.java_hash import java_hash
from logdex.rocketmq.message.tags_code import SCHEDULE_TOPIC_NAME


class QueueName(NamedTuple):
    """A topic (stored bytes) and a queue id (a signed 32-bit number)."""

    topic: bytes
    queue_id: int


class TopicTable:
    """Topics and queues by number. One writer at a time. A kernel uses the table's addresses only
    during one call."""

    def __init__(self) -> None:
        self.topics: list[bytes] = []
        self.queues: list[QueueName] = []
        self._topic_numbers: dict[bytes, int] = {}
        self._queue_numbers: dict[QueueName, int] = {}
        self._buffers: list[npt.NDArray[np.uint8]] = []
        self._records = np.zeros((64, TOPIC_RECORD // 8), np.int64)
        self._topic_slots = np.zeros(256, np.int32)
        self._queue_keys = np.zeros(256, np.int64)
        self._queue_slots = np.zeros(1024, np.int32)
        self._placed_topics = self._placed_queues = 0

    def lookup_tables(self) -> LookupTables:
        """Returns the tables that the kernel reads. They are valid until the next `add_topic` or
        `add_queue`."""
        self._place_new()
        return LookupTables(
            topic_slots=self._topic_slots.ctypes.data,
            topic_mask=self._topic_slots.size - 1,
            topics=self._records.ctypes.data,
            queue_slots=self._queue_slots.ctypes.data,
            queue_mask=self._queue_slots.size - 1,
            queue_keys=self._queue_keys.ctypes.data,
        )

    def add_topic(self, topic: bytes) -> int:
        """Adds a new topic and returns its number. The topic must not be in the table yet."""
        number = len(self.topics)
        if number == len(self._records):
            self._records = np.concatenate([self._records, np.zeros_like(self._records)])
        buffer = np.frombuffer(topic + bytes(8), np.uint8)
        seed = java_hash(topic + b"#")
        self._records[number] = (
            buffer.ctypes.data,
            len(topic),
            seed & 0xFFFFFFFF,
            java_hash(b"T#", seed) & 0xFFFFFFFF,
            SCHEDULE_TOPIC if topic == SCHEDULE_TOPIC_NAME else 0,
        )
        self._buffers.append(buffer)
        self.topics.append(topic)
        self._topic_numbers[topic] = number
        return number

    def add_queue(self, topic_number: int, queue_id: int) -> int:
        """Adds a new queue and returns its number. The queue must not be in the table yet."""
        number = len(self.queues)
        if number == self._queue_keys.size:
            self._queue_keys = np.concatenate([self._queue_keys, np.zeros_like(self._queue_keys)])
        self._queue_keys[number] = topic_number << 32 | queue_id & 0xFFFFFFFF
        name = QueueName(self.topics[topic_number], queue_id)
        self.queues.append(name)
        self._queue_numbers[name] = number
        return number

    def number_of(self, topic: bytes, queue_id: int) -> int:
        """Returns the number of a queue, which is added if it is new."""
        number = self._queue_numbers.get(QueueName(topic, queue_id))
        if number is None:
            topic_number = self._topic_numbers.get(topic)
            number = self.add_queue(self.add_topic(topic) if topic_number is None else topic_number, queue_id)
        return number

    def _place_new(self) -> None:
        """Places the topics and queues that were added since the last call in the slots, which have
        room for four times as many. Only kernels read the slots, and placing needs kernels."""
        while 4 * len(self.topics) > self._topic_slots.size:
            self._topic_slots, self._placed_topics = np.zeros(2 * self._topic_slots.size, np.int32), 0
        while 4 * len(self.queues) > self._queue_slots.size:
            self._queue_slots, self._placed_queues = np.zeros(2 * self._queue_slots.size, np.int32), 0
        for number in range(self._placed_topics, len(self.topics)):
            self._place_topic(number)
        for number in range(self._placed_queues, len(self.queues)):
            self._place_queue(number)
        self._placed_topics, self._placed_queues = len(self.topics), len(self.queues)

    def _place_topic(self, number: int) -> None:
        address, length = int(self._records[number, 0]), len(self.topics[number])
        _put(self._topic_slots, topic_place(address, length, address + length), number)

    def _place_queue(self, number: int) -> None:
        _put(self._queue_slots, mix(np.uint64(self._queue_keys[number]), np.uint64(7)), number)


def _put(slots: npt.NDArray[np.int32], place: int, number: int) -> None:
    mask = slots.size - 1
    place &= mask
    while slots[place]:
        place = (place + 1) & mask
    slots[place] = number + 1
