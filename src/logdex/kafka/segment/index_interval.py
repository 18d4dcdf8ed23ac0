"""Infers the `index.interval.bytes` of a topic from its index files.

No file states the interval. An entry is made for the first batch that is more than the interval
after the last entry (or the segment's start). So each stretch of a .log between two entries bounds
the interval to [low, high): low is the distance to its last batch without an entry, high the
distance to the next entry. The last stretch has no high. The broker restarts its byte count when it
reopens or truncates a segment: such a stretch is longer, and its low may be too high. In an index
whose entries are of appends, a batch without an entry says nothing, so its stretches have no low.
Source: ``docs/formats/kafka-offset-index.md``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from logdex import limits
from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.kafka.files.file_names import INDEX_SUFFIX, LOG_SUFFIX, parse_offset_file, parse_partition_dir
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.settings.log_config import LogConfig
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.layout.kafka import OFFSET_INDEX_ENTRY

DEFAULT_INTERVAL_BYTES = LogConfig().index_interval_bytes
SEGMENTS_MAX, TRIED_SEGMENTS_MAX = 2, 4
"""Per partition: how many segments must yield stretches, and how many with entries are tried for
that."""
ENTRIES_MAX = 256
SCANNED_BYTES_MAX = 16 << 20
"""Per segment: how many entries are used at most, and how many bytes are scanned to find their
batches."""

_REOPENED_MAX = 2
_ENDLESS = limits.SEGMENT_SIZE_BYTES_MAX + 1
_ENTRY = OFFSET_INDEX_ENTRY.dtype
_ROUND_UNITS = (1 << 20, 1_000_000, 1 << 10, 1_000, 100, 10)


class IndexInterval(NamedTuple):
    """An interval in bytes.

    With `is_inferred` the indexes fit every interval from `low` to `high` - 1; otherwise the
    interval is the default.
    """

    size_bytes: int
    is_inferred: bool = False
    low: int = 0
    high: int = 0


def stretches_of(positions: Int64s, entry_positions: Int64s) -> Int64s:
    """(low, high)[n, 2] of the stretches at a segment's start; empty if its index does not fit its
    batches.

    `positions` are the positions of the segment's first batches, without a gap; `entry_positions`
    are those of its first entries, and must include all entries up to the last of these batches.
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
    """The interval that most stretches fit.

    It is the broker's default if the stretches allow that or are too few. One or two stretches that
    are too long for the default come from a reopened segment; a stretch that is too short rules the
    default out.
    """
    default = IndexInterval(DEFAULT_INTERVAL_BYTES)
    if not len(stretches):
        return default
    low, high = stretches[:, 0], stretches[:, 1]
    edges = np.unique(stretches)  # the number of fitting stretches changes only here
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
    """A round number in [low, end). All numbers in this range lead to the same index."""
    if low <= DEFAULT_INTERVAL_BYTES < end:
        return DEFAULT_INTERVAL_BYTES
    power = 1 << max((end - 1).bit_length() - 1, 0)
    if low <= power < end:
        return power
    multiples = (-(-low // unit) * unit for unit in _ROUND_UNITS)
    return next((number for number in multiples if 0 < number < end), low)


def index_intervals(partitions: Mapping[str, Sequence[str]], env: Env) -> dict[str, IndexInterval]:
    """The index interval by partition directory, from the paths of each partition's .log files in
    order.

    The interval is a setting of the topic, so the stretches of its partitions are combined. Reads a
    bounded part of at most two segments per partition.
    """
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
    """Yields stretches of the first segments that have any. The active segment comes last."""
    told = tried = 0
    for log_path in logs:
        try:
            offsets, entries = _first_entries(log_path.removesuffix(LOG_SUFFIX) + INDEX_SUFFIX, env)
            if not len(entries):
                continue
            last_offsets, positions = _first_batches(log_path, entries, env)
            stretches = stretches_of(positions, entries)
            if len(stretches) and _are_of_appends(offsets, last_offsets[np.isin(positions, entries)]):
                stretches[:, 0] = 0
        except StorageError:  # whoever reads the file next reports it
            continue
        tried += 1
        if len(stretches):
            told += 1
            yield stretches
        if told == SEGMENTS_MAX or tried == TRIED_SEGMENTS_MAX:
            return


def _are_of_appends(offsets: Int64s, last_offsets: Int64s) -> bool:
    """Whether an entry names a later offset than the last one of its batch, as those of an older
    broker do. `last_offsets` are those of the first entries' batches."""
    return bool((offsets[: len(last_offsets)] > last_offsets).any())


def _first_batches(log_path: str, entries: Int64s, env: Env) -> tuple[Int64s, Int64s]:
    """The last offsets and the positions of a .log's first batches, as far as `entries` reach.

    The offsets are relative to the segment's, as those of entries are.
    """
    stop = SCANNED_BYTES_MAX
    if len(entries) == ENTRIES_MAX:
        stop = min(int(entries[-1]) + 1, stop)
    scanner = BatchScanner(check_crc=False, env=env)
    parsed = parse_offset_file(posixpath.basename(log_path))
    base_offset = 0 if parsed is None else parsed[0]
    found = [np.empty((2, 0), np.int64)]
    for window in scanner.scan_file(log_path, stop=stop):
        found.append(np.stack([window.columns.last_offset - base_offset, window.columns.position]))
    last_offsets, positions = np.concatenate(found, axis=1)
    return last_offsets, positions


def _first_entries(path: str, env: Env) -> tuple[Int64s, Int64s]:
    """The relative offsets and the positions of an index's first entries, without preallocated
    zeros; empty without an index."""
    if not env.is_file(path):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    with env.open_read(path) as file:
        raw = file.read_at(0, min(file.size_bytes // _ENTRY.itemsize, ENTRIES_MAX) * _ENTRY.itemsize)
    whole = len(raw) // _ENTRY.itemsize  # a file that was truncated meanwhile may end within an entry
    entries = np.frombuffer(raw, _ENTRY, whole)
    zeros = np.flatnonzero(entries["position"] == 0)
    entries = entries[: zeros[0]] if len(zeros) else entries
    return entries["relative_offset"].astype(np.int64), entries["position"].astype(np.int64)


def describe_intervals(intervals: Mapping[str, IndexInterval]) -> tuple[list[str], list[str]]:
    """Describes the intervals of partitions for a report: (lines on inferred, lines on assumed
    ones)."""
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
            if low > 0 or size != DEFAULT_INTERVAL_BYTES:
                lines[0].append(f"{line}: {low} to {high - 1} fit the indexes")
            else:
                lines[1].append(f"{line}: the default, which the indexes do not contradict")
        else:
            lines[1].append(line)
    return lines
