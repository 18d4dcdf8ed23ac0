"""Selects the batches of a window that affect the producer state, as tuples.

Source: Kafka's DefaultRecordBatch (sequences), ProducerAppendInfo.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.kafka.batch.record import NO_SEQUENCE
from logdex.kafka.batch.record_format import SEQUENCE_SPAN
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL

BATCHES_RETAINED = 5
"""The number of batches per producer that are remembered to detect duplicates."""


class ProducerBatch(NamedTuple):
    """The fields of a batch that the producer state needs.

    `timestamp_ms` is the record's timestamp in a control batch, else the batch's largest.
    """

    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp_ms: int
    is_transactional: bool
    is_control: bool
    control_type: int
    coordinator_epoch: int


def increment_sequence(sequence: int, by: int) -> int:
    """`sequence` + `by`, wrapping from 2^31 - 1 to 0."""
    return (sequence + by) % SEQUENCE_SPAN


def decrement_sequence(sequence: int, by: int) -> int:
    """`sequence` - `by`, wrapping from 0 to 2^31 - 1; -1 (none) stays -1."""
    return sequence if sequence == NO_SEQUENCE else (sequence - by) % SEQUENCE_SPAN


def producer_batches(columns: BatchColumns, *, every: bool = False) -> Iterator[ProducerBatch]:
    """The batches with a producer id, in log order.

    Unless `every`, data batches are left out if later batches of the window undo their effect: five
    batches of the same producer and kind follow before the producer's next control batch. So a few
    busy idempotent producers cost little more than the columns.
    """
    places = np.flatnonzero(columns.producer_id >= 0) if every else telling_places(columns)
    if not len(places):
        return iter(())
    # lazily: thousands of live tuples would keep Python's garbage collector busy
    return map(ProducerBatch._make, zip(*_values(columns, places), strict=True))


def telling_places(columns: BatchColumns) -> npt.NDArray[np.intp]:
    """The indexes in a window of the batches that `producer_batches` yields."""
    places = np.flatnonzero(columns.producer_id >= 0)
    return _telling(columns, places) if len(places) > BATCHES_RETAINED else places


def _telling(columns: BatchColumns, places: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Selects from `places`: every control batch, and of each run of data batches the first and
    last few.

    A run has one producer and one kind (transactional or not).
    """
    places = places[np.argsort(columns.producer_id[places], kind="stable")]
    producer = columns.producer_id[places]
    kind = columns.attributes[places] & (BATCH_CONTROL | BATCH_TRANSACTIONAL)
    count = len(places)
    first = np.ones(count, np.bool_)
    first[1:] = (producer[1:] != producer[:-1]) | (kind[1:] != kind[:-1]) | (kind[1:] & BATCH_CONTROL != 0)
    ends = np.append(np.flatnonzero(first)[1:], count)
    until_end = np.repeat(ends, np.diff(ends, prepend=0)) - np.arange(count)
    return np.sort(places[first | (until_end <= BATCHES_RETAINED)])


def _values(columns: BatchColumns, places: npt.NDArray[np.intp]) -> list[list[Any]]:
    """One list per field of `ProducerBatch`."""
    attributes = columns.attributes[places]
    is_control = attributes & BATCH_CONTROL != 0
    base_offset, last_offset = columns.base_offset[places], columns.last_offset[places]
    base_sequence = columns.base_sequence[places].astype(np.int64)
    wrapped = (base_sequence + (last_offset - base_offset)) % SEQUENCE_SPAN
    timestamp = np.where(is_control, columns.control_timestamp_ms[places], columns.max_timestamp_ms[places])
    values = (
        columns.producer_id[places],
        columns.producer_epoch[places],
        base_sequence,
        np.where(base_sequence == NO_SEQUENCE, NO_SEQUENCE, wrapped),
        base_offset,
        last_offset,
        timestamp,
        attributes & BATCH_TRANSACTIONAL != 0,
        is_control,
        columns.control_type[places],
        columns.coordinator_epoch[places],
    )
    return [value.tolist() for value in values]
