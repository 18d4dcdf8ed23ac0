"""Recovers a segment: checks every batch, derives both indexes, truncates the .log after its last
good batch.

Source: Kafka's LogSegment.recover; ``docs/formats/kafka-offset-index.md``. One scan with CRCs and
one fold write the broker's bytes. A callback receives the batches, to derive other state from them
(producers, leader epochs, aborted transactions).
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_file_name
from logdex.kafka.scan.behind_unreadable import LeftOutBytes, scan_readable
from logdex.kafka.scan.scanner import WINDOW_BATCHES, BatchScanner, BatchWindow, ScanEnd
from logdex.kafka.segment.derive_indexes import IndexFold, encode_offset_entries, encode_time_entries, repeats_nothing
from logdex.kafka.settings.log_config import LogConfig
from logdex.kernels.kafka.batch_columns import BatchColumns

OnColumns = Callable[[BatchColumns], None]
"""Called with each window of good batches, in log order. The columns are valid during the call
only."""


@dataclass(frozen=True, slots=True)
class DerivedSegment:
    """The indexes derived from a segment's good batches, and where and why these end."""

    offset_index: bytes
    time_index: bytes
    batches: int
    size_bytes: int
    """The size of the good batches, to which a recovery truncates the .log."""
    truncated_bytes: int
    """The number of bytes after the good batches."""
    next_offset: int
    """The last batch's last offset + 1, or the base offset."""
    end: ScanEnd
    left_out: tuple[LeftOutBytes, ...] = ()
    """The bytes among the good batches that cannot be read."""


def derive_segment(
    log_path: str,
    base_offset: int,
    interval_bytes: int,
    *,
    stop: int | None = None,
    window_batches: int = WINDOW_BATCHES,
    on_columns: OnColumns | None = None,
    skips_unreadable: bool = False,
    env: Env = DEFAULT_ENV,
) -> DerivedSegment:
    """Derives what a recovery would write. Only reads the segment, up to byte `stop`.

    With `skips_unreadable` bytes that cannot be read are left out; else `UnreadableError` is raised
    there, and nobody truncates a log for a disk that fails.

    Raises `OffsetOverflowError` and `OffsetOrderError` for batches that no index can hold. The
    broker splits the segment in the first case and empties it in the second.
    """
    fold = IndexFold(base_offset, interval_bytes, path=log_path)
    offset_parts: list[bytes] = []
    time_parts: list[bytes] = []
    batches, next_offset, size_in_all = 0, base_offset, env.size_bytes(log_path)
    windows = _Windows(log_path, window_batches, stop, skips_unreadable=skips_unreadable, env=env)
    for window in windows:
        offset_entries, time_entries = fold.add(window.columns)
        offset_parts.append(encode_offset_entries(offset_entries, base_offset))
        time_parts.append(encode_time_entries(time_entries, base_offset))
        batches, next_offset = batches + window.count, int(window.columns.last_offset[-1]) + 1
        if on_columns is not None:
            on_columns(window.columns)
    time_parts.append(encode_time_entries(fold.finish(), base_offset))
    return DerivedSegment(
        offset_index=b"".join(offset_parts),
        time_index=b"".join(time_parts),
        batches=batches,
        size_bytes=windows.end.position,
        truncated_bytes=size_in_all - windows.end.position,
        next_offset=next_offset,
        end=windows.end,
        left_out=tuple(windows.left_out),
    )


class _Windows:
    """The windows of a segment's good batches. When all were taken, `end` states where and why they
    ended, and `left_out` has the bytes that `skips_unreadable` left out."""

    end: ScanEnd

    def __init__(
        self,
        path: str,
        window_batches: int,
        stop: int | None = None,
        *,
        check_crc: bool = True,
        skips_unreadable: bool,
        env: Env,
    ) -> None:
        self.left_out: list[LeftOutBytes] = []
        scanner = BatchScanner(check_crc, window_batches, env, unreadable_is_damage=skips_unreadable)
        if skips_unreadable:
            self._windows = scan_readable(scanner, path, stop, self.left_out, env)
        else:
            self._windows = scanner.scan_file(path, stop=stop)

    def __iter__(self) -> Iterator[BatchWindow]:
        self.end = yield from self._windows


def recover(
    directory: str,
    base_offset: int,
    config: LogConfig,
    *,
    output: str | None = None,
    on_columns: OnColumns | None = None,
    env: Env = DEFAULT_ENV,
) -> DerivedSegment:
    """Derives the indexes of the segment at `base_offset` and writes them, trimmed, to `output`.

    Without `output` the segment is recovered in place, and its .log is truncated after the last
    good batch. Files are not synced. Raises as `derive_segment` does, before anything is written.
    """
    log_path = posixpath.join(directory, offset_file_name(base_offset, LOG_SUFFIX))
    derived = derive_segment(log_path, base_offset, config.index_interval_bytes, on_columns=on_columns, env=env)
    target = directory if output is None else output
    for suffix, data in ((INDEX_SUFFIX, derived.offset_index), (TIME_INDEX_SUFFIX, derived.time_index)):
        with env.open_write(posixpath.join(target, offset_file_name(base_offset, suffix))) as file:
            file.truncate(0)
            file.write_at(0, data)
    if output is None and derived.truncated_bytes > 0:
        with env.open_write(log_path) as file:
            file.truncate(derived.size_bytes)
    return derived


def first_fall(log_path: str, base_offset: int, *, skips_unreadable: bool = False, env: Env) -> int | None:
    """The position of the first batch whose offsets are not above those of all batches before it;
    `skips_unreadable` as of `derive_segment`.

    A batch without records that repeats offsets is passed over, as the broker passes it over: it
    holds nothing, and a compaction may have written it.
    """
    last = base_offset - 1
    for window in _Windows(log_path, WINDOW_BATCHES, check_crc=False, skips_unreadable=skips_unreadable, env=env):
        columns = window.columns
        before = np.maximum.accumulate(np.concatenate(([last], columns.last_offset)))
        fell = (columns.base_offset <= before[:-1]) | (columns.last_offset <= before[:-1])
        falls = np.flatnonzero(fell & ~repeats_nothing(columns, before[:-1]))
        if len(falls):
            return int(columns.position[falls[0]])
        last = int(before[-1])
    return None
