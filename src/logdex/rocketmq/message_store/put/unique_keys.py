"""UNIQ_KEY values, one at a time and as columns.

Source: MessageClientIDSetter.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from logdex.primitives.host import Host

_HEX = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_HEX_PAIRS = [f"{number:02X}" for number in range(256)]  # formatting each number takes twice as long


class UniqueKeys:
    """Makes UNIQ_KEY values as a client does: address, process, a hash, time since the month began,
    a counter. Columns have another hash and a counter of their own, so no two values are equal.
    Thread-safe."""

    def __init__(self, host: Host) -> None:
        seed = random.getrandbits(32)
        self._first, self._first_in_column = (
            f"{host.address.hex()}{os.getpid() & 0xFFFF:04x}{each:08x}".upper() for each in (seed, seed ^ 1)
        )
        self._counter = itertools.count(1)
        self._lock = threading.Lock()
        self._next_in_column = 0
        """Time (ms) and counter (16 bits) of the next value in a column, at least."""
        self._month = (0, 0)
        self._of_time = (-1, "")
        """A time, and the values of that millisecond without the counter."""

    def next(self, now_ms: int) -> bytes:
        """A new value."""
        return self.next_text(now_ms).encode()

    def next_text(self, now_ms: int) -> str:
        """A new value as text."""
        at_ms, before = self._of_time
        if at_ms != now_ms:
            before = f"{self._first}{self._month_ms(now_ms):08X}"
            self._of_time = now_ms, before
        number = next(self._counter)
        return f"{before}{_HEX_PAIRS[number >> 8 & 255]}{_HEX_PAIRS[number & 255]}"

    def _month_ms(self, now_ms: int) -> int:
        """The time since the month began."""
        start, end = self._month
        if not start <= now_ms < end:
            start, _ = self._month = _month_of(now_ms)
        return now_ms - start

    def column(self, count: int, now_ms: int) -> Any:
        """`count` new values as an Arrow array of large_binary."""
        with self._lock:
            begin = max(self._next_in_column, now_ms << 16)  # the counter carries into the time
            self._next_in_column = begin + count
            start = (self._month_ms(begin >> 16) << 16) + (begin & 0xFFFF)
        numbers = start + np.arange(count, dtype=np.int64)
        first = f"{self._first_in_column}{start:012X}".encode()
        digits = np.empty((count, len(first)), np.uint8)
        digits[:] = np.frombuffer(first, np.uint8)
        for place in range((start ^ (start + count - 1)).bit_length() + 3 >> 2):  # those that change
            digits[:, -1 - place] = _HEX[numbers >> 4 * place & 15]
        offsets = np.arange(count + 1, dtype=np.int64) * digits.shape[1]
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
        return pa.Array.from_buffers(pa.large_binary(), count, buffers)


def _month_of(now_ms: int) -> tuple[int, int]:
    """When the month of a time begins and ends, in UTC."""
    first = datetime.fromtimestamp(now_ms / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
    return round(first.timestamp() * 1000), round(following.timestamp() * 1000)
