"""Replaces segments by others, after a compaction or when a segment overflows its indexes.

New segments are written as ``.cleaned`` and renamed to ``.swap``. Then the old ones are renamed to
``.deleted``, and the new ones to their names, each .log first. The directory is synced after each
step, so that `leftovers` can tell how far the swap went: as long as a ``.log.swap`` exists, files
of its offsets without a suffix are old. Source: Kafka's LocalLog.replaceSegments,
splitOverflowedSegment.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from logdex import limits
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.directory.leftovers import offset_of_name
from logdex.kafka.files.file_names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    offset_file_name,
)
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.log_segments import LogSegments
from logdex.kafka.settings.log_config import LogConfig
from logdex.kernels.kafka.batch_columns import pick_columns
from logdex.layout.kafka import MAGIC_V2


def set_aside(segment: LogSegment, *, env: Env) -> None:
    """Renames a segment's files to ``.deleted``, durably."""
    segment.change_file_suffixes("", DELETED_SUFFIX, log_first=True)
    env.sync_dir(segment.directory)


def open_cleaned_segment(
    directory: str, base_offset: int, config: LogConfig, *, clock_ms: Callable[[], int], env: Env, open_files: OpenFiles
) -> LogSegment:
    """Creates an empty segment under ``.cleaned`` names, to fill for `replace_segments`."""
    for suffix in SEGMENT_SUFFIXES:  # leftovers of an earlier attempt
        env.remove(posixpath.join(directory, offset_file_name(base_offset, suffix) + CLEANED_SUFFIX))
    return LogSegment(
        directory,
        base_offset,
        config,
        writable=True,
        env=env,
        open_files=open_files,
        suffix=CLEANED_SUFFIX,
        clock_ms=clock_ms,
    )


def replace_segments(
    segments: LogSegments, new: Sequence[LogSegment], old: Sequence[LogSegment], *, directory: str, env: Env
) -> None:
    """Replaces `old` segments by the ``.cleaned`` segments `new`, on disk and in `segments`.

    No thread may read meanwhile. `new` must be trimmed and flushed. At any time the disk has all
    old ones or all new ones. Other ``.cleaned`` files, which a replacement left that failed, are
    removed: a crash would make them count as parts of this one, and it as unfinished.
    """
    rising = sorted(new, key=lambda segment: segment.base_offset)
    own = {segment.base_offset for segment in rising}
    for name in env.list_dir(directory):
        if name.endswith(CLEANED_SUFFIX) and offset_of_name(name) not in own:
            env.remove(posixpath.join(directory, name))
    env.sync_dir(directory)  # a .swap index must never be without its .log, under any name
    for segment in reversed(rising):
        segment.change_file_suffixes(CLEANED_SUFFIX, SWAP_SUFFIX)
    env.sync_dir(directory)
    for segment in old:
        segment.change_file_suffixes("", DELETED_SUFFIX)
    env.sync_dir(directory)
    for segment in rising:
        segment.change_file_suffixes(SWAP_SUFFIX, "", log_first=True)
    env.sync_dir(directory)
    segments.replace(old, rising)
    for segment in old:
        segment.delete_files()


def split_overflowed_segment(
    segment: LogSegment,
    segments: LogSegments,
    config: LogConfig,
    directory: str,
    *,
    clock_ms: Callable[[], int],
    env: Env,
    open_files: OpenFiles,
) -> tuple[list[LogSegment], int]:
    """Splits a segment whose offsets are too far from its base offset; batches keep their bytes.

    Returns the new segments and the byte of the old .log at which they end. Bytes from there on are
    dropped, as the following recovery would drop them: they are no batch, or one whose own offsets
    fit no segment.
    """
    begin = partial(open_cleaned_segment, directory, config=config, clock_ms=clock_ms, env=env, open_files=open_files)
    parts: list[LogSegment] = []
    end = 0
    try:
        for window in _good_windows(segment, env):
            end = int(window.columns.position[-1]) + int(window.columns.size[-1])
            for start, stop in _runs(window, parts[-1].base_offset if parts else None):
                base_offset = _base_offset(window, start)
                if not parts or not 0 <= int(window.columns.last_offset[start]) - parts[-1].base_offset <= _FAR:
                    parts.append(begin(base_offset))
                _copy(window, start, stop, parts[-1])
        if not parts:
            parts.append(begin(segment.base_offset))
        for part in parts:
            part.on_become_inactive()
            part.flush()
        replace_segments(segments, parts, [segment], directory=directory, env=env)
    except BaseException:
        for part in [segment, *parts]:
            part.close()
        raise
    return parts, end


def _good_windows(segment: LogSegment, env: Env) -> Iterator[BatchWindow]:
    """Windows of the batches before the first one that ends before it begins or spans too much."""
    for window in BatchScanner(check_crc=False, env=env).scan_file(segment.log.path):
        columns = window.columns
        spans = columns.last_offset - columns.base_offset
        bad = np.flatnonzero((spans < 0) | (spans > _FAR))
        if not len(bad):
            yield window
            continue
        if bad[0]:
            columns = pick_columns(columns, slice(int(bad[0])))
            yield replace(window, columns=columns, count=int(bad[0]))
        return


def _copy(window: BatchWindow, start: int, stop: int, part: LogSegment) -> None:
    first = int(window.columns.position[start])
    end = int(window.columns.position[stop - 1]) + int(window.columns.size[stop - 1])
    columns = pick_columns(window.columns, slice(start, stop))
    part.append(window.data[first:end].tobytes(), columns._replace(position=columns.position - first))


_FAR = limits.RELATIVE_OFFSET_MAX


def _runs(window: BatchWindow, base_offset: int | None) -> Iterator[tuple[int, int]]:
    """Yields [start, stop) of the batches of a window that belong in one segment each.

    The first of these segments is the one at `base_offset`.
    """
    last = window.columns.last_offset
    start = 0
    while start < window.count:
        base = _base_offset(window, start) if base_offset is None else base_offset
        if not 0 <= int(last[start]) - base <= _FAR:
            base = _base_offset(window, start)
        outside = np.flatnonzero((last[start:] - base > _FAR) | (last[start:] < base))
        stop = start + int(outside[0]) if len(outside) else window.count
        yield start, stop
        start, base_offset = stop, None


def _base_offset(window: BatchWindow, place: int) -> int:
    """The offset of a batch's first record. A wrapper of magic 0 or 1 is decompressed for it."""
    if int(window.columns.magic[place]) == MAGIC_V2:
        return int(window.columns.base_offset[place])
    at, size = int(window.columns.position[place]), int(window.columns.size[place])
    batch, _ = decode_batch(window.data[at : at + size].tobytes(), path=window.path, check_crc=False)
    return batch.first_offset()
