"""The keys of the log's messages, as the IndexFiles should have them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.dialect import Dialect
from logdex.rocketmq.verify.index.index_disk import IndexRows


@dataclass(frozen=True, slots=True)
class LogKeys:
    """The keys of a window as arrays, one element per key: hash, physical offset, store time in
    milliseconds."""

    key_hash: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    store_ms: npt.NDArray[np.int64]

    @staticmethod
    def of(window: Window) -> LogKeys:
        """The keys that the scan found in a window."""
        c, n = window.columns, window.count
        counts = np.diff(c.key_end[:n], prepend=np.int32(0))
        times = np.repeat(c.store_timestamp_ms[:n], counts)
        return LogKeys(c.key_hash[: window.key_count], np.repeat(c.position[:n], counts), times)

    @staticmethod
    def decoded(window: Window, start_offset: int, dialect: Dialect) -> LogKeys:
        """The keys that a dialect gives to the messages of a window from a physical offset on."""
        c, n = window.columns, window.count
        first = int(np.searchsorted(c.position[:n], start_offset))
        data = memoryview(window.data)  # type: ignore[arg-type]  # arrays are buffers
        rows = np.arange(first, n)
        hashes = [
            message_key_hashes(decode_message(data, place, check_crc=False)[0], dialect)
            for place in window.places(rows).tolist()
        ]
        counts = [len(of_message) for of_message in hashes]
        flat = np.array([key_hash for of_message in hashes for key_hash in of_message], np.int32)
        return LogKeys(flat, np.repeat(c.position[rows], counts), np.repeat(c.store_timestamp_ms[rows], counts))

    def matches(self, at: int, rows: IndexRows) -> int:
        """Returns how many of the keys from `at` on are those of the rows, until one is not."""
        count = min(len(self.key_hash) - at, len(rows.key_hash))
        equal = (rows.key_hash[:count] == self.key_hash[at : at + count]) & (
            rows.phy_offset[:count] == self.offset[at : at + count]
        )
        return count if equal.all() else int(np.argmin(equal))
