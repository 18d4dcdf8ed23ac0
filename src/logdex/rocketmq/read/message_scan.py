"""The messages of a log in its order, filtered on the scan's columns; only what passes is decoded, or made Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.rocketmq.scan.scanner import LogEnd, Scanner, Window
    from logdex.rocketmq.scan.topic_table import TopicTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFilter:
    """Which messages are wanted; None: no bound. Times are store times in ms, both inclusive; offsets are those to
    begin at: `start_offset` in the log (a message's), `queue_offset` in each queue; `limit` is the most messages."""

    topic: bytes | None = None
    queue_id: int | None = None
    begin_ms: int | None = None
    end_ms: int | None = None
    start_offset: int | None = None
    queue_offset: int | None = None
    limit: int | None = None


class LogScan:
    """One pass over a log, each time it is iterated. `end` says where and why the log ended, once a pass has got there;
    None where `limit` stopped it before. One thread at a time."""

    def __init__(self, log: CommitLog, config: StoreConfig, wanted: ScanFilter, env: Env) -> None:
        self.wanted = wanted
        self.end: LogEnd | None = None
        self._log, self._config, self._env = log, config, env

    def __iter__(self) -> Iterator[StoredMessage]:
        return (message for _, message in self.items())

    def items(self) -> Iterator[tuple[int, StoredMessage]]:
        """(physical offset, message): where it lies, whatever it says of itself."""
        for window, rows in self.windows():
            data = memoryview(window.data)  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so
            path, first = window.file.path, window.file.start_offset
            for offset in window.columns.position[rows].tolist():
                yield offset, decode_message(data, offset - first, path=path, check_crc=False)[0]

    def to_arrow(self) -> pa.RecordBatchReader:
        """The messages as a `pyarrow.RecordBatchReader`, which DuckDB and Polars read as it is; made from the scan's
        columns, in memory that does not depend on the log."""
        from logdex.rocketmq.columns.message_columns import to_record_batches

        scanner = self._scanner()
        return to_record_batches(self._windows(scanner), scanner.table)

    def windows(self) -> Iterator[tuple[Window, npt.NDArray[np.int64]]]:
        """The scan's windows that hold wanted messages, with their rows."""
        return self._windows(self._scanner())

    def _scanner(self) -> Scanner:
        from logdex.rocketmq.scan.scanner import Scanner

        return Scanner(self._config, env=self._env)

    def _windows(self, scanner: Scanner) -> Iterator[tuple[Window, npt.NDArray[np.int64]]]:
        self.end = None
        left = self.wanted.limit
        if left is not None and left <= 0:
            return
        for window in scanner.scan(self._log, self.wanted.start_offset):
            rows = self._rows(window, scanner.table)[:left]
            if len(rows):
                yield window, rows
            if left is not None:
                left -= len(rows)
                if left <= 0:
                    return
        self.end = scanner.end

    def _rows(self, window: Window, table: TopicTable) -> npt.NDArray[np.int64]:
        wanted, columns, count = self.wanted, window.columns, window.count
        keep = np.ones(count, np.bool_)
        if wanted.topic is not None or wanted.queue_id is not None:
            of_queue = [
                wanted.topic in (None, topic) and wanted.queue_id in (None, queue_id)
                for topic, queue_id in table.queues
            ]
            keep &= np.array(of_queue, np.bool_)[columns.queue[:count]]
        if wanted.begin_ms is not None:
            keep &= columns.store_timestamp_ms[:count] >= wanted.begin_ms
        if wanted.end_ms is not None:
            keep &= columns.store_timestamp_ms[:count] <= wanted.end_ms
        if wanted.queue_offset is not None:
            keep &= columns.queue_offset[:count] >= wanted.queue_offset
        return np.flatnonzero(keep)
