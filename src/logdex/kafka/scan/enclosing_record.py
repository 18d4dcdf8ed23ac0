"""Decides whether a run of batches lies inside the key or value of a record, by the lengths stored
before it.

This is used if the header of the batch around the run is destroyed, or its end is unknown.

Source: Kafka's DefaultRecord, LegacyRecord.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from logdex.io.mapped.byte_array import ByteArray
from logdex.kafka.scan.batch_runs import BatchRun, is_whole_batch
from logdex.kafka.scan.damaged_batch import DamagedBatch
from logdex.primitives.varint import VARINT_SIZE_BYTES_MAX, read_varint, read_varlong

_LOOK_BACK_BYTES = 512
"""The distance before a run in which the first byte of its record is searched; a key may lie
between."""
_NONE = -1


class _Lengths(NamedTuple):
    """Start and end of a record's key and value, and the record's end, by the lengths in it."""

    key: tuple[int, int]
    value: tuple[int, int]
    end: int


def enclosing_end(data: ByteArray, around: DamagedBatch, run: BatchRun) -> int:
    """Returns the end of the record that contains `run`, or -1 if no lengths show that a record
    contains it.

    `around` is the damaged batch before the run. If its header is whole, the record may reach
    beyond the log's end.
    """
    if around.is_plausible():
        for start, end in around.records():
            if start < run.start and run.end <= end <= around.stated_end:
                return end
    view = memoryview(data)  # type: ignore[arg-type]  # an array is a buffer; its type does not say so
    first = max(around.position, run.start - _LOOK_BACK_BYTES)
    for start in _possible_starts(bytes(view[first : run.start])):
        lengths = _record_lengths(view, first + start, run.start)
        if lengths is None:
            continue
        for begin, end in (lengths.key, lengths.value):
            if begin <= run.start and run.end <= end:
                return lengths.end
    return _message_end(data, view, first, run.start)


def _possible_starts(raw: bytes) -> Iterator[int]:
    """Yields the positions where a record may begin, the last one first. A record begins with its
    attributes, a zero byte, after a length above zero."""
    attributes = raw.rfind(0)
    while attributes > 0:
        start = attributes - 1
        if 0 < raw[start] < 0x80:
            yield start
            while start > 0 and raw[start - 1] >= 0x80 and attributes - start < VARINT_SIZE_BYTES_MAX:
                start -= 1
                yield start
        attributes = raw.rfind(0, 0, attributes)


def _record_lengths(view: memoryview, start: int, limit: int) -> _Lengths | None:
    """Returns the places in a record of magic 2 at `start`, or None unless all its lengths agree.
    The lengths of key and value must lie before `limit`."""
    try:
        length, body = read_varint(view, start, limit)
        end = body + length
        if end <= limit or body >= limit or view[body] != 0:
            return None
        _, at = read_varlong(view, body + 1, limit)
        _, at = read_varint(view, at, limit)
        size, at = read_varint(view, at, limit)
        key = (at, at + max(size, 0))
        size, at = read_varint(view, key[1], len(view))
        value = (at, at + max(size, 0))
        return _Lengths(key, value, end) if _headers_end(view, value[1], min(end, len(view))) == end else None
    except ValueError:
        return None


def _headers_end(view: memoryview, at: int, limit: int) -> int:
    """Returns the end of a record's headers, which begin at `at`. Raises `ValueError` if they reach
    beyond `limit`."""
    count, at = read_varint(view, at, limit)
    for _ in range(2 * count):  # name and content of each
        size, at = read_varint(view, at, limit)
        at += max(size, 0)
    return at


def _message_end(data: ByteArray, view: memoryview, first: int, start: int) -> int:
    """Returns the end of a message of magic 0 or 1 whose value begins at `start`; -1 if there is
    none.

    Key and value have their lengths before them, and after the value another batch begins or the
    log ends.
    """

    def number(at: int) -> int:
        return int.from_bytes(view[at : at + 4], "big", signed=True) if at >= first else 0

    end = start + number(start - 4)
    if not start < end <= data.size or not (end == data.size or is_whole_batch(data, end)):
        return _NONE
    has_key = number(start - 8) == -1 or any(number(start - 8 - size) == size for size in range(start - 8 - first))
    return end if has_key else _NONE
