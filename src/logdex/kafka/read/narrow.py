"""A filter made narrower by the conditions of a query, which are about the columns of the records.

A read plan needs no condition: it may leave out a record for which one does not hold, and every
other record is in it. So a condition that `ReadFilter` cannot express is ignored here.
"""

from __future__ import annotations

from dataclasses import replace

from logdex.frames.conditions import Conditions, highest, lowest
from logdex.kafka.read.read_filter import ReadFilter


def narrowed(wanted: ReadFilter, topic: str, partition: int, conditions: Conditions) -> ReadFilter | None:
    """Returns a filter for records of a partition that pass `wanted` and for which the conditions
    may hold, None if there are none."""
    place = {"topic": topic, "partition": partition}
    keys = conditions.values("key")
    if keys is not None and wanted.key is not None:
        keys &= {wanted.key}
    if not all(conditions.hold(name, value) for name, value in place.items()) or (keys is not None and not keys):
        return None
    first, last = conditions.bounds("offset")
    begin_ms, end_ms = conditions.bounds("timestamp_ms")
    return replace(
        wanted,
        begin_ms=highest(begin_ms, wanted.begin_ms),
        end_ms=lowest(end_ms, wanted.end_ms),
        offset=highest(first, wanted.offset),
        end_offset=lowest(None if last is None else last + 1, wanted.end_offset),
        key=next(iter(keys)) if wanted.key is None and keys is not None and len(keys) == 1 else wanted.key,
    )
