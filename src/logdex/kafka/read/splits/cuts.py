"""Finds where to cut a part of a segment into splits: at batches that the offset index or the batch
headers lead to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from logdex.errors import LogdexError
from logdex.kafka.read.prune import SegmentPart
from logdex.kafka.scan.scanner import BatchScanner, EndKind
from logdex.kernels.kafka.batch_columns import Int64s
from logdex.layout.kafka import OFFSET_INDEX_ENTRY


def cut(part: SegmentPart, split_bytes: int) -> list[int]:
    """Returns the positions [begin, …, end] that bound the splits of a part, about `split_bytes`
    apart.

    The offset index is used if its entries rise and each batch at a cut confirms its entry: its
    checksum is right, and its offsets lie between those of its neighbours. Otherwise the
    headers of the part are read. If they do not lead from batch to batch, the part is not cut.
    """
    count = max(1, round((part.end - part.begin) / split_bytes))
    wanted = [part.begin + (part.end - part.begin) * number // count for number in range(1, count)]
    if not wanted:
        return [part.begin, part.end]
    found = _by_index(part, wanted)
    if found is None:
        found = _nearest(_walked(part), wanted)
    return [part.begin, *(at for at in found if part.begin < at < part.end), part.end]


def _nearest(positions: Int64s, wanted: Sequence[int]) -> list[int]:
    """Returns the first of the rising `positions` at or after each of `wanted`, each once."""
    places = np.unique(np.searchsorted(positions, wanted))
    return [int(positions[place]) for place in places if place < len(positions)]


def _by_index(part: SegmentPart, wanted: Sequence[int]) -> list[int] | None:
    """Returns the cuts by the offset index; None if the index cannot be trusted, or has no entries
    to cut at."""
    try:
        entries = np.frombuffer(part.segment.offset_index.used_bytes.tobytes(), OFFSET_INDEX_ENTRY.dtype)
        offsets = part.segment.base_offset + entries["relative_offset"].astype(np.int64)
        positions = entries["position"].astype(np.int64)
        if not len(entries) or (np.diff(offsets) <= 0).any() or (np.diff(positions) <= 0).any():
            return None
        found = _nearest(positions, wanted)
        for place in np.searchsorted(positions, found).tolist():
            if not _is_borne_out(part, offsets, positions, place):
                return None
    except LogdexError:
        return None
    return found


def _is_borne_out(part: SegmentPart, offsets: Int64s, positions: Int64s, place: int) -> bool:
    """Whether a batch begins where an entry states, with offsets above those of the previous entry
    and below the next one's or the next segment's, and offsets rise from the previous entry's batch
    to the one behind it. The entry's offset is one of the batch, or the last one of a later batch,
    with which the append of an older broker ended."""
    segment, begin, header, last, is_end = part.segment, int(positions[place]), None, -1, False
    for each in segment.log.headers(int(positions[place - 1]) if place else 0):
        if each.base_offset <= last:
            return False
        last = each.last_offset
        if each.position == begin:
            header = each
        is_end = is_end or last == offsets[place]
        if each.position > begin and last >= offsets[place]:
            break
    if header is None or not header.base_offset <= offsets[place]:
        return False
    if offsets[place] > header.last_offset and not is_end:
        return False
    if place and header.base_offset <= offsets[place - 1]:
        return False
    if header.last_offset >= (offsets[place + 1] if place + 1 < len(offsets) else part.next_base):
        return False
    segment.log.batch_at(header.position).check_crc()
    return True


def _walked(part: SegmentPart) -> Int64s:
    """Where the batches of the part begin; none if there is damage, because then headers may lead
    into a record, or the first batch of a split may be a wrong one."""
    scanner, last = BatchScanner(env=part.segment.env), np.int64(-1)
    positions: list[Int64s] = []
    with part.segment.log.map() as mapped:
        data = mapped.array[: part.segment.size_bytes]
        for window in scanner.scan_bytes(data, part.begin, part.end, path=part.segment.log.path):
            columns = window.columns
            if (columns.base_offset <= np.append(last, columns.last_offset[:-1])).any():
                return np.zeros(0, np.int64)
            last = columns.last_offset[-1].copy()
            positions.append(columns.position.copy())
    is_whole = scanner.end.kind is EndKind.END and bool(positions) and last < part.next_base
    return np.concatenate(positions) if is_whole else np.zeros(0, np.int64)
