"""What a scan of the log has found, kept for the derivation of ConsumeQueues and IndexFiles, which
then need not scan that part of the log again.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from logdex.kernels.rocketmq.message_scan import Columns
from logdex.rocketmq.scan.topic_table import TopicTable
from logdex.rocketmq.scan.window import Window

KEPT_BYTES_MAX = 128 << 20
"""How many bytes of columns are kept: those of about two million messages. What follows is scanned
again."""
_NO_DATA = np.empty(0, np.uint8)
_NEEDED = frozenset(
    ("position", "queue_offset", "store_timestamp_ms", "tags_code", "size", "sys_flag", "queue", "is_dispatched")
)


class KeptWindows:
    """The windows of a scan from `start` to `end`, without the messages' bytes. Iterating yields
    them."""

    def __init__(self, start: int) -> None:
        self.table = TopicTable()
        """The topics and queues of the windows."""
        self.start = self.end = start
        self._windows: list[Window] = []
        self._left = KEPT_BYTES_MAX

    def __iter__(self) -> Iterator[Window]:
        return iter(self._windows)

    def add(self, window: Window, count: int) -> None:
        """Keeps the first `count` messages of the next window, if there is room, and if their own
        bytes are not needed."""
        columns = window.columns
        if self._left <= 0 or not count or columns.is_dispatched[:count].any():
            self._left = 0
            return
        keys = int(columns.key_end[count - 1])
        size = dict.fromkeys(_NEEDED, count) | {"key_end": count, "key_hash": keys}
        kept = Columns._make(getattr(columns, name)[: size.get(name, 0)].copy() for name in Columns._fields)
        self._windows.append(Window(kept, count, keys, window.file, _NO_DATA, 0))
        self._left -= sum(column.nbytes for column in kept)
        self.end = int(columns.position[count - 1]) + int(columns.size[count - 1])
