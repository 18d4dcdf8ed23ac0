"""Writes cleaned batches to a ``.cleaned`` segment, or to several if they do not fit one.

Source: Kafka's Cleaner.cleanSegments. Kafka gives up if the cleaned batches of a group do not fit
the indexes of one segment; here another segment is started.
"""

from __future__ import annotations

import contextlib

import numpy as np

from logdex import limits
from logdex.errors import IndexFullError, StorageError
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.log.core import LogCore
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kernels.kafka.batch_columns import BatchColumns


class CleanedSegments:
    """`segments`, the first at `base_offset`, for `LogCore.replace_segments`; or `discard` them.
    For one thread."""

    def __init__(self, core: LogCore, base_offset: int) -> None:
        self._core = core
        self._scanner = BatchScanner(check_crc=False, env=core.env)
        self.segments: list[LogSegment] = []
        self.next_offset = base_offset
        """The offset after the last batch."""
        self._begin(base_offset)

    def _begin(self, base_offset: int) -> None:
        self.segments.append(self._core.open_cleaned_segment(base_offset))

    @property
    def size_bytes(self) -> int:
        """The total size of the .log files."""
        return sum(segment.size_bytes for segment in self.segments)

    def append(self, data: bytes) -> None:
        """Adds whole batches, with their index entries."""
        view = memoryview(data)
        for window in self._scanner.scan_bytes(data, path=self.segments[-1].log.path):
            self._append(view, window.columns)

    def _append(self, view: memoryview, columns: BatchColumns) -> None:
        ends = columns.position + columns.size
        start, count = 0, len(ends)
        while start < count:
            segment, begin = self.segments[-1], int(columns.position[start])
            room = limits.SEGMENT_SIZE_BYTES_MAX - segment.size_bytes
            far = columns.last_offset[start:] - segment.base_offset > limits.RELATIVE_OFFSET_MAX
            stop = int(np.searchsorted(ends, begin + room, "right"))
            stop = min(stop, start + int(far.argmax())) if far.any() else stop
            if stop > start:
                with contextlib.suppress(IndexFullError):
                    start = segment.append_some(view, columns, start, stop)
                    self.next_offset = int(columns.last_offset[start - 1]) + 1
                    continue
            # This batch does not fit, so it starts another segment. An empty segment has room for
            # any batch.
            end = int(ends[start])
            batch, _ = decode_batch(view[begin:end], path=segment.log.path, check_crc=False)
            self._begin(batch.first_offset())

    def add_aborted(self, transactions: list[AbortedTxn]) -> None:
        """Adds entries to the transaction indexes of the segments that have the markers."""
        for transaction in transactions:
            holders = [segment for segment in self.segments if segment.base_offset <= transaction.last_offset]
            holders[-1].txn_index.append(transaction)

    def finish(self, modified_ns: int) -> None:
        """Trims the indexes and syncs all files; the .log files get the modification time of the
        old ones."""
        for segment in self.segments:
            segment.on_become_inactive()
            segment.flush()
            self._core.env.set_modified_ns(segment.log.path, modified_ns)

    def discard(self) -> None:
        """Removes the files. One that cannot be removed is cleared when the log is opened again."""
        for segment in self.segments:
            with contextlib.suppress(StorageError):
                segment.delete_files()

    def close(self) -> None:
        """Closes the files without removing them."""
        for segment in self.segments:
            segment.close()
