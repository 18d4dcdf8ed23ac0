"""A window of a scan: messages as columns, and the bytes that they lie in."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.mapping import require_readable
from logdex.kernels.rocketmq import message_scan as kernel
from logdex.rocketmq.commit_log.commit_log import CommitLogFile


@dataclass(slots=True)
class Window:
    """`count` messages in `columns`: the first `count` elements of each column, and the first
    `key_count` of `key_hash`. They are valid until the next window is requested. All messages are
    in `file`. `data` holds their bytes: those of the file from the physical offset `data_offset`
    on, or, for messages read one by one, each message at the position in `picked`."""

    columns: kernel.Columns
    count: int
    key_count: int
    file: CommitLogFile
    data: ByteArray
    data_offset: int
    picked: kernel.Int64s | None = None

    @property
    def begin_offset(self) -> int:
        """The physical offset of the first message."""
        return int(self.columns.position[0])

    @property
    def end_offset(self) -> int:
        """The physical offset after the last message."""
        return int(self.columns.position[self.count - 1]) + int(self.columns.size[self.count - 1])

    @property
    def newest_ms(self) -> int:
        """The greatest store time of a message."""
        return int(np.max(self.columns.store_timestamp_ms[: self.count]))

    def last_crc(self) -> int:
        """Returns the CRC-32 of all bytes of the last message."""
        last = np.array([self.count - 1])
        at = int(self.places(last)[0])
        return zlib.crc32(self.data[at : at + int(self.columns.size[last[0]])].data)

    def places(self, rows: kernel.Int64s) -> kernel.Int64s:
        """Returns the position in `data` of each message of `rows`."""
        if self.picked is not None:
            return self.picked[rows]
        return self.columns.position[rows] - self.data_offset

    def require_readable(self, rows: kernel.Int64s) -> None:
        """Raises `UnreadableError` if the file was truncated while the messages of `rows`, which
        rise, were read from `data`, or if the disk cannot read them."""
        if len(rows):
            places, last = self.places(rows[[0, -1]]), rows[-1]
            require_readable(self.data, int(places[0]), int(places[1]) + int(self.columns.size[last]))


def make_columns(messages: int) -> kernel.Columns:
    """Returns columns for a window of `messages` messages. They are parts of one array: its pages
    are claimed from the system at once, which takes a tenth of the time."""
    fields = kernel.Columns._fields
    dtypes = [np.dtype(np.int64 if name in kernel.WIDE_COLUMNS else np.int32) for name in fields]
    sizes = [4 * messages + kernel.KEYS_PER_MESSAGE_MAX if name == "key_hash" else messages for name in fields]
    ends = list(accumulate(_padded(size * dtype.itemsize) for size, dtype in zip(sizes, dtypes, strict=True)))
    whole = np.zeros(ends[-1], np.uint8)
    begins = [0, *ends[:-1]]
    columns = zip(begins, sizes, dtypes, strict=True)
    return kernel.Columns(*(whole[at : at + size * dtype.itemsize].view(dtype) for at, size, dtype in columns))


def _padded(size_bytes: int) -> int:
    """Rounds up to a cache line, and one more: columns a multiple of a page apart would share the
    places of a cache."""
    return (size_bytes + 127) // 64 * 64
