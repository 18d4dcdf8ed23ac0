"""Applies a read filter to the windows of a scan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from logdex.kernels.rocketmq.message_scan import ColumnAddresses, Int64s
from logdex.kernels.rocketmq.property_match import match_tags
from logdex.kernels.rocketmq.property_text import FOUND_SIZE
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.read.keys.key_question import KeyQuestion
from logdex.rocketmq.read.read_filter import ReadFilter, bounds_by_number, last_before, within
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window


class RowFilter:
    """Applies a `ReadFilter` to windows of one scanner, whose table is `table`. It checks columns
    first, and the bytes of messages only for tags and keys whose hash matches. One thread at a
    time."""

    def __init__(self, wanted: ReadFilter, table: TopicTable) -> None:
        self._wanted = wanted
        self._table = table
        self._question = wanted.question()
        self._bounds = wanted.bounds_of_queues()
        self._key_hash = None if self._question is None else self._question.key_hash()

    def rows(self, window: Window) -> Int64s:
        """Returns the places in a window of the wanted messages."""
        wanted, columns, count = self._wanted, window.columns, window.count
        keep = within(columns.position[:count], wanted.begin_offset, last_before(wanted.end_offset))
        keep &= within(columns.store_timestamp_ms[:count], wanted.begin_ms, wanted.end_ms)
        keep &= wanted.wants_queue_offsets(columns.queue_offset[:count])
        if wanted.topic is not None or wanted.queue_ids is not None:
            of_queue = [wanted.wants_queue(topic, queue_id) for topic, queue_id in self._table.queues]
            keep &= np.array(of_queue, np.bool_)[columns.queue[:count]]
        if self._bounds and count:
            first, last = bounds_by_number(self._bounds, self._table.queues)[:, columns.queue[:count]]
            keep &= (columns.queue_offset[:count] >= first) & (columns.queue_offset[:count] <= last)
        if self._key_hash is not None:
            hits = np.flatnonzero(columns.key_hash[: window.key_count] == self._key_hash)
            with_key = np.zeros(count, np.bool_)
            with_key[np.searchsorted(columns.key_end[:count], hits, side="right")] = True
            keep &= with_key
        rows = np.flatnonzero(keep)
        if wanted.tags is not None and len(rows):
            rows = rows[self.has_tag(window, rows, wanted.tags)]
        if self._question is not None and len(rows):
            rows = rows[self._has_key(window, rows, self._question)]
        return rows

    @staticmethod
    def _has_key(window: Window, rows: Int64s, question: KeyQuestion) -> npt.NDArray[np.bool_]:
        """Returns a mask of the messages that have the key itself. Few have its hash but not the
        key, so each of these is decoded."""
        data = memoryview(window.data)  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so
        places = window.places(rows).tolist()
        path = window.file.path
        return np.array(
            [question.names(decode_message(data, at, path=path, check_crc=False)[0]) for at in places], np.bool_
        )

    @staticmethod
    def has_tag(window: Window, rows: Int64s, tags: frozenset[bytes]) -> npt.NDArray[np.bool_]:
        """Returns a mask of the messages that have one of the tags, byte for byte."""
        ordered = sorted(tags)
        text = np.frombuffer(b"".join(ordered) + bytes(1), np.uint8)
        ends = np.cumsum([len(tag) for tag in ordered], dtype=np.int64)
        columns, places = window.columns, window.places(rows)
        addresses = ColumnAddresses._make([*(column.ctypes.data for column in columns), window.count, window.key_count])
        matched, found = np.zeros(len(rows), np.uint8), np.zeros(FOUND_SIZE, np.int64)
        match_tags(
            window.data.ctypes.data,
            window.data.size,
            places.ctypes.data,
            rows.ctypes.data,
            len(rows),
            addresses,
            text.ctypes.data,
            ends.ctypes.data,
            len(ordered),
            found.ctypes.data,
            matched.ctypes.data,
        )
        return matched.astype(np.bool_)
