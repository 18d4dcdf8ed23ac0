"""Finds the batches of an append that are in the log already, because their producer sends them
again.

Source: Kafka's ProducerStateEntry.findDuplicateBatch, UnifiedLog.analyzeAndValidateProducerState.
The broker takes a whole append for a duplicate if one of its batches is; here the other batches are
written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from logdex.kafka.batch.record import NO_TIMESTAMP
from logdex.kafka.batch.record_format import SEQUENCE_SPAN
from logdex.kafka.state.producer_batches import decrement_sequence, increment_sequence, producer_batches
from logdex.kafka.state.producer_state import BatchMetadata, ProducerState, ProducerStates
from logdex.kernels.kafka.batch_columns import BatchColumns, pick_columns


class WrittenBatches(NamedTuple):
    """The first `batches` batches of an append are in the log already.

    `first_offset` is the first offset of the earliest one that is still remembered, `last_offset`
    and `timestamp_ms` are those of the last one; all are -1 if none of them is remembered.
    """

    batches: int
    first_offset: int = -1
    last_offset: int = -1
    timestamp_ms: int = NO_TIMESTAMP


def find_written(states: ProducerStates, columns: BatchColumns, *, trusts_sequences: bool = False) -> WrittenBatches:
    """How many of the first batches of a client's append are in the log already.

    A batch counts as written if it is one of the last five of its producer, or if its sequences
    lead up to such a batch within the append. With `trusts_sequences` it also counts if its
    sequences are below those of the batches that are remembered: then the append repeats a long
    series of batches, of which all but the last ones are forgotten.
    """
    found = WrittenBatches(0)
    places = np.flatnonzero(columns.producer_id < 0)
    stop = int(places[0]) if len(places) else len(columns.producer_id)
    while found.batches < stop:
        start = found.batches
        state = states.get(int(columns.producer_id[start]))
        same = (columns.producer_id[start:stop] == columns.producer_id[start]) & (
            columns.producer_epoch[start:stop] == columns.producer_epoch[start]
        )
        run = start + (int(np.argmin(same)) if not same.all() else len(same))
        if state is None or int(columns.producer_epoch[start]) != state.producer_epoch:
            return found
        if int(columns.base_sequence[start]) == increment_sequence(state.last_sequence, 1):
            return found  # the usual case: it is the producer's next batch
        found = _written_of(state, columns, start, run, found, trusts_sequences=trusts_sequences)
        if found.batches < run:
            return found
    return found


def _written_of(
    state: ProducerState,
    columns: BatchColumns,
    start: int,
    stop: int,
    before: WrittenBatches,
    *,
    trusts_sequences: bool,
) -> WrittenBatches:
    """Adds those of batches [start, stop), all of one producer and epoch, that are in the log to
    `before`."""
    batches = list(producer_batches(pick_columns(columns, slice(start, stop)), every=True))
    first: BatchMetadata | None = None
    last: BatchMetadata | None = None
    written, expected = 0, batches[0].base_sequence
    for place, batch in enumerate(batches):
        if batch.is_control or batch.base_sequence != expected:
            break
        known = state.find_duplicate(batch)
        if known is not None:
            first, last, written = first or known, known, place + 1
        expected = increment_sequence(batch.last_sequence, 1)
    if not written and trusts_sequences and state.batches:
        oldest = state.batches[0].first_sequence
        ahead = [decrement_sequence(oldest, batch.last_sequence + 1) for batch in batches]
        written = next((at for at, distance in enumerate(ahead) if distance >= SEQUENCE_SPAN // 2), len(ahead))
        written = 0 if any(batch.is_control for batch in batches) else written
    if first is None or last is None:
        return before._replace(batches=before.batches + written)
    first_offset = first.first_offset if before.first_offset < 0 else before.first_offset
    return WrittenBatches(start + written, first_offset, last.last_offset, max(last.timestamp_ms, before.timestamp_ms))
