"""Which `index.interval.bytes` a topic's indexes were written with, as far as its files tell.

No file states it. An entry is made at the first batch more than the interval behind the last entry (or the segment's
start), so each stretch of a log from one entry to the next says [low, high): low is how far its last batch without an
entry lies from where it begins, high how far the next entry does. The last stretch has no high. The count of bytes
begins anew where a broker reopened or truncated a segment: such a stretch is longer, and its low may be too high.
Source: ``docs/formats/kafka-offset-index.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from logdex import limits
from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.kafka.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, parse_partition_dir
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.settings.log_config import LogConfig
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.layout.kafka import OFFSET_INDEX_ENTRY

DEFAULT_INTERVAL_BYTES = LogConfig().index_interval_bytes
SEGMENTS_MAX, TRIED_SEGMENTS_MAX = 2, 4
"""Segments of a partition that must tell something, and that are looked at for it: the first that have entries."""
ENTRIES_MAX = 256
SCANNED_BYTES_MAX = 16 << 20
"""Of a segment: the first entries, and the headers of the batches up to the last of them."""

_REOPENED_MAX = 2
_ENDLESS = limits.SEGMENT_SIZE_BYTES_MAX + 1
_ENTRY = OFFSET_INDEX_ENTRY.dtype
_ROUND_UNITS = (1 << 20, 1_000_000, 1 << 10, 1_000, 100, 10)


class IndexInterval(NamedTuple):
    """An interval, bytes. With `is_inferred` each of `low` to `high` - 1 fits the indexes; else nothing told."""

    size_bytes: int
    is_inferred: bool = False
    low: int = 0
    high: int = 0


def stretches_of(positions: Int64s, entry_positions: Int64s) -> Int64s:
    """(low, high)[n, 2] of the stretches of a segment's start; none where its index does not fit its batches.

    `positions` are those of its first batches, all of them from byte 0 to some end; `entry_positions` those of its
    first entries, all that lie before that end.
    """
    none = np.empty((0, 2), np.int64)
    if not len(positions):
        return none
    entries = entry_positions[entry_positions <= positions[-1]]
    if not len(entries) or entries[0] <= 0 or (np.diff(entries) <= 0).any():
        return none
    places = np.searchsorted(positions, entries)
    if (positions[places] != entries).any():
        return none
    starts = np.append(0, entries)
    low = np.maximum(np.append(positions[places - 1], positions[-1]) - starts, 0)
    found = np.stack([low, np.append(entries - starts[:-1], _ENDLESS)], axis=1)
    return found if positions[-1] > entries[-1] else found[:-1]


def infer_index_interval(stretches: Int64s) -> IndexInterval:
    """The interval that most stretches fit; the broker's default where they allow it, or tell nothing.

    One or two stretches that are too long for the default are those of a segment that was reopened; a stretch that is
    too short speaks against it.
    """
    default = IndexInterval(DEFAULT_INTERVAL_BYTES)
    if not len(stretches):
        return default
    low, high = stretches[:, 0], stretches[:, 1]
    edges = np.unique(stretches)  # how many fit changes only there
    fitting = np.searchsorted(np.sort(low), edges, "right") - np.searchsorted(np.sort(high), edges, "right")
    best = int(np.argmax(fitting))
    least, end = int(edges[best]), int(edges[min(best + 1, len(edges) - 1)])
    if end >= _ENDLESS or 2 * int(fitting[best]) < len(stretches):
        return default
    too_short, too_long = high <= DEFAULT_INTERVAL_BYTES, low > DEFAULT_INTERVAL_BYTES
    if not too_short.any() and int(too_long.sum()) <= min(_REOPENED_MAX, len(stretches) // 2):
        least, end = int(low[~too_long].max()), int(high[~too_long].min())
        return default if end >= _ENDLESS else IndexInterval(DEFAULT_INTERVAL_BYTES, True, least, end)
    return IndexInterval(_round_within(least, end), True, least, end)


def _round_within(low: int, end: int) -> int:
    """A number of [low, end) such as people choose: all of them give the same index."""
    if low <= DEFAULT_INTERVAL_BYTES < end:
        return DEFAULT_INTERVAL_BYTES
    power = 1 << max((end - 1).bit_length() - 1, 0)
    if low <= power < end:
        return power
    multiples = (-(-low // unit) * unit for unit in _ROUND_UNITS)
    return next((number for number in multiples if 0 < number < end), low)


def index_intervals(partitions: Mapping[str, Sequence[str]], env: Env) -> dict[str, IndexInterval]:
    """By name of partition directory, whose .log paths in their order are given. What the partitions of a topic tell
    is put together: the interval is a topic's. Reads a bounded part of two segments a partition."""
    found: dict[str, list[Int64s]] = {}
    for name, logs in partitions.items():
        found.setdefault(_topic_of(name), []).extend(_partition_stretches(logs, env))
    topics = {
        topic: infer_index_interval(np.concatenate([np.empty((0, 2), np.int64), *told]))
        for topic, told in found.items()
    }
    return {name: topics[_topic_of(name)] for name in partitions}


def _topic_of(name: str) -> str:
    parsed = parse_partition_dir(name)
    return name if parsed is None else parsed.topic


def _partition_stretches(logs: Sequence[str], env: Env) -> Iterator[Int64s]:
    """Of the first segments that tell something; the active one, which a broker may be writing, comes last."""
    told = tried = 0
    for log_path in logs:
        try:
            entries = _first_entries(log_path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX, env)
            if not len(entries):
                continue
            stretches = stretches_of(_first_batches(log_path, entries, env), entries)
        except StorageError:  # whoever reads it next says so
            continue
        tried += 1
        if len(stretches):
            told += 1
            yield stretches
        if told == SEGMENTS_MAX or tried == TRIED_SEGMENTS_MAX:
            return


def _first_batches(log_path: str, entries: Int64s, env: Env) -> Int64s:
    """Positions of a log's first batches, as far as `entries` are known."""
    stop = SCANNED_BYTES_MAX
    if len(entries) == ENTRIES_MAX:
        stop = min(int(entries[-1]) + 1, stop)
    scanner = BatchScanner(check_crc=False, env=env)
    windows = scanner.scan_file(log_path, stop=stop)
    return np.concatenate([np.empty(0, np.int64), *(window.columns.position.copy() for window in windows)])


def _first_entries(path: str, env: Env) -> Int64s:
    """Positions of an index's first entries, without what is preallocated; none where there is no index."""
    if not env.is_file(path):
        return np.empty(0, np.int64)
    with env.open_read(path) as file:
        raw = file.read_at(0, min(file.size_bytes // _ENTRY.itemsize, ENTRIES_MAX) * _ENTRY.itemsize)
    positions = np.frombuffer(raw, _ENTRY)["position"].astype(np.int64)
    zeros = np.flatnonzero(positions == 0)
    return positions[: zeros[0]] if len(zeros) else positions


def describe_intervals(intervals: Mapping[str, IndexInterval]) -> tuple[list[str], list[str]]:
    """What a report says of the intervals of partitions: lines on those inferred, lines on those assumed."""
    groups: dict[tuple[bool, int], list[str]] = {}
    for name, interval in intervals.items():
        groups.setdefault((interval.is_inferred, interval.size_bytes), []).append(name)
    lines: tuple[list[str], list[str]] = ([], [])
    for (is_inferred, size), names in sorted(groups.items()):
        line = f"index.interval.bytes {size}"
        if len(groups) > 1:
            line += f" of {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")
        if is_inferred:
            low, high = max(intervals[name].low for name in names), min(intervals[name].high for name in names)
            lines[0].append(f"{line}: {low} to {high - 1} fit the indexes")
        else:
            lines[1].append(line)
    return lines
