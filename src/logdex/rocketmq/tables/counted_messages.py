"""The table of messages. Where a query needs nothing but topics and queue ids, as a count does, its
rows are made from the number of messages per queue, and the messages are not read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from logdex.frames.conditions import Conditions
from logdex.frames.scan_frames import ScanSource
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.parts.queue_counts import QueueCounts

_COUNTED = {"topic", "queue_id"}
_BATCH_ROWS = 1 << 16


class CountedMessages:
    """The messages of a scan. The ConsumeQueues are counted at the first read that needs it."""

    def __init__(self, scan: LogScan) -> None:
        self.schema = scan.schema
        self._scan = scan
        self._source = ScanSource(scan)
        self._counting: list[LogScan] = []
        self._counts: QueueCounts | None = None
        self._counted_upto: LogEnd | None = None

    @property
    def scans(self) -> list[LogScan]:
        """The scans that reads have made, and those whose end was found by counting."""
        return [*self._source.scans, *self._counting]

    def counts(self) -> QueueCounts | None:
        """Returns how many messages each queue has, None if the log has to be scanned for that. A
        snapshot that was refreshed is counted again."""
        upto, scan = self._scan.upto(), self._scan.narrowed(Conditions())
        if scan is None or upto is None:
            return None
        if upto != self._counted_upto:
            self._counted_upto, self._counts = upto, scan.queue_counts()
            if self._counts is not None:
                self._counting.append(scan)
        return self._counts

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        """Yields batches: in the order of the log, or by queue where queues were counted."""
        counts = self.counts() if _COUNTED.issuperset(columns) else None
        if counts is None:
            yield from self._source.batches(columns, conditions)
            return
        narrower = self._scan.narrowed(conditions)
        if narrower is None:
            return
        for (topic, queue_id), count in counts.items():
            if narrower.wanted.wants_queue(topic, queue_id):
                yield from self._rows(topic, queue_id, count)

    def _rows(self, topic: bytes, queue_id: int, count: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema.field(name) for name in sorted(_COUNTED)])
        rows = min(count, _BATCH_ROWS)
        ids, places = pa.array(np.full(rows, queue_id, np.int32)), pa.array(np.zeros(rows, np.int32))
        topics = pa.DictionaryArray.from_arrays(places, pa.array([to_text(topic)]))
        whole = pa.RecordBatch.from_arrays([ids, topics], schema=schema)
        for begin in range(0, count, _BATCH_ROWS):
            yield whole.slice(0, count - begin)
