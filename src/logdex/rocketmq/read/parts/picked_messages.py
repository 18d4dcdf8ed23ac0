"""Reads messages at known places one by one, without the bytes between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from logdex.io.env import ReadFile
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.read_runs import read_runs
from logdex.kernels.rocketmq.message_scan import Int64s
from logdex.layout.rocketmq import (
    HOST_V4_SIZE_BYTES,
    HOST_V6_SIZE_BYTES,
    MESSAGE_HEAD,
    MESSAGE_TAIL,
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_STORE_HOST_V6,
)
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window

BATCH_BYTES = 16 << 20
"""The size in bytes of a batch of messages that are read together; a batch holds at least one
message."""
JOIN_BYTES = 4096
"""Shorter gaps between two messages are read with them, because that costs less than another
read."""
BODY_BYTES_MIN = 1024
"""Shorter messages are read with their bodies even if no body is requested, because one read costs
less than two.
"""

_HEAD_BYTES_MAX = MESSAGE_HEAD.size_bytes + 2 * HOST_V6_SIZE_BYTES + 8 + MESSAGE_TAIL.size_bytes


@dataclass(frozen=True, slots=True)
class Picked:
    """A batch of picked messages. `rows` counts those before it. `is_good` is False if the first
    one after the window is not a whole message of the stated size."""

    window: Window
    rows: int
    is_good: bool


class MessagePicker:
    """Reads messages at known places of one CommitLog file. One thread at a time."""

    def __init__(self, scanner: Scanner, file: CommitLogFile, opened: ReadFile, *, bodies: bool) -> None:
        self._scanner = scanner
        self._file = file
        self._opened = opened
        self._bodies = bodies

    def pick(self, offsets: Int64s, sizes: Int64s, *, most: int | None = None) -> Iterator[Picked]:
        """Yields the messages at rising physical offsets, with the sizes that an index states. Ends
        at the first one that is not there. `most` is the maximum number of messages per batch. Body
        CRCs are checked where bodies are read."""
        most = self._scanner.window_messages if most is None else min(most, self._scanner.window_messages)
        ends = np.cumsum(sizes, dtype=np.int64)
        start = 0
        while start < len(offsets):
            before = int(ends[start - 1]) if start else 0
            fitting = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
            stop = min(start + most, max(fitting, start + 1))
            batch = slice(start, stop)
            positions = offsets[batch] - self._file.start_offset
            data, places, is_whole = self._read(positions, sizes[batch])
            if not is_whole:  # The file has become shorter: what it still has of these may be given.
                is_there = positions + sizes[batch] <= self._opened.size_now()
                stop = start + (0 if is_there.all() else int(np.argmin(is_there)))
            done = 0
            while True:
                rest = slice(start + done, stop)
                window, is_good = self._scanner.pick(
                    self._file, data, places[done : stop - start], offsets[rest], sizes[rest], check_crc=self._bodies
                )
                done += window.count
                is_good = is_good and (is_whole or done < stop - start)
                yield Picked(window, start + done - window.count, is_good)
                if not is_good:
                    return
                if done == stop - start:
                    break
            start = stop

    def _read(self, positions: Int64s, sizes: Int64s) -> tuple[ByteArray, Int64s, bool]:
        """Returns the bytes of some messages, the position of each in them, and whether the file
        has all of them."""
        if self._bodies or bool((sizes < BODY_BYTES_MIN).all()):
            begins = np.flatnonzero(positions[1:] - (positions + sizes)[:-1] > JOIN_BYTES) + 1
            firsts = np.concatenate([[0], begins])
            run_positions = positions[firsts]
            run_sizes = (positions + sizes)[np.concatenate([begins - 1, [len(positions) - 1]])] - run_positions
            run_places = np.cumsum(run_sizes) - run_sizes
            data = np.zeros(int(run_sizes.sum()), np.uint8)  # Zeros, where the file ends early, are no message.
            runs = zip(run_positions.tolist(), run_sizes.tolist(), run_places.tolist(), strict=True)
            is_whole = read_runs(self._opened, runs, data)
            in_run = np.repeat(run_places - run_positions, np.diff(np.append(firsts, len(positions))))
            return data, positions + in_run, is_whole
        return self._read_without_bodies(positions, sizes)

    def _read_without_bodies(self, positions: Int64s, sizes: Int64s) -> tuple[ByteArray, Int64s, bool]:
        """Reads some messages without their bodies. The room for the bodies is never accessed, so
        it takes no memory."""
        places = np.cumsum(sizes) - sizes
        data = np.zeros(int(sizes.sum()), np.uint8)
        heads = np.where(sizes < BODY_BYTES_MIN, sizes, _HEAD_BYTES_MAX)
        if not read_runs(self._opened, _runs(positions, heads, places), data):
            return data, places, False
        at, size, place = (part[sizes >= BODY_BYTES_MIN] for part in (positions, sizes, places))
        sys_flag = _numbers(data, place + MESSAGE_HEAD.offset_of("sys_flag"))
        longer = HOST_V6_SIZE_BYTES - HOST_V4_SIZE_BYTES
        body = np.full(len(at), MESSAGE_HEAD.size_bytes + 2 * HOST_V4_SIZE_BYTES + 8 + MESSAGE_TAIL.size_bytes)
        body += longer * ((sys_flag & SYS_FLAG_BORN_HOST_V6) != 0) + longer * ((sys_flag & SYS_FLAG_STORE_HOST_V6) != 0)
        lengths = _numbers(data, place + body - 4)
        rest = np.minimum(np.maximum(body + np.maximum(lengths, 0), _HEAD_BYTES_MAX), size)
        return data, places, read_runs(self._opened, _runs(at + rest, size - rest, place + rest), data)


def _runs(positions: Int64s, sizes: Int64s, places: Int64s) -> Iterator[tuple[int, int, int]]:
    return zip(positions.tolist(), sizes.tolist(), places.tolist(), strict=True)


def _numbers(data: ByteArray, places: Int64s) -> Int64s:
    """Returns the big-endian int32 at each of some positions."""
    if not len(places):
        return np.empty(0, np.int64)
    numbers: Int64s = data[places[:, None] + np.arange(4)].view(">i4")[:, 0].astype(np.int64)
    return numbers
