"""The producer state of a partition: a fold over batches, from which `.snapshot` and `.txnindex`
are derived.

`ProducerStates.add` adds batches that are in the log already (recovery, rebuild, verify). `prepare`
and `commit` check and add batches that a client appends. Source:
``docs/formats/kafka-producer-snapshot.md``; Kafka's ProducerStateManager, ProducerAppendInfo,
ProducerStateEntry.

There is one replica, so a completed transaction counts as replicated, and the first unstable offset
is the first offset of the earliest open transaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from logdex.errors import (
    CorruptError,
    InvalidControlRecordError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    ProducerStateError,
    TransactionCoordinatorFencedError,
)
from logdex.kafka.batch.record import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.settings.log_config import DAY_MS
from logdex.kafka.state.producer_batches import (
    BATCHES_RETAINED,
    ProducerBatch,
    decrement_sequence,
    increment_sequence,
    producer_batches,
)
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import CONTROL_ABORT, CONTROL_COMMIT
from logdex.primitives.java_hash_map import DEFAULT_CAPACITY, grown_capacity, hash_map_order


class BatchMetadata(NamedTuple):
    """A batch as the producer state keeps it. `offset_delta` is last offset - first offset."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        """The batch's first offset."""
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        """The batch's first sequence number, wrapping from 0 to 2^31 - 1."""
        return decrement_sequence(self.last_sequence, self.offset_delta)


class CompletedTxn(NamedTuple):
    """A completed transaction: the offsets of its first record and of its end marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool

    def to_aborted(self) -> AbortedTxn:
        """The transaction's entry in the transaction index, if it was aborted."""
        return AbortedTxn(*self[:4])


def aborted_of(completed: Iterable[CompletedTxn]) -> list[AbortedTxn]:
    """The transaction index entries of the aborted ones among `completed`."""
    return [txn.to_aborted() for txn in completed if txn.is_aborted]


class ProducerState:
    """The state of one producer; -1 for unknown values.

    `batches` are its last batches in the current epoch, oldest first.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp_ms",
        "producer_epoch",
        "producer_id",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp_ms: int = NO_TIMESTAMP,
        current_txn_first_offset: int = -1,
        batches: Iterable[BatchMetadata] = (),
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.current_txn_first_offset = current_txn_first_offset
        self.batches = deque(batches, BATCHES_RETAINED)

    def copy(self) -> ProducerState:
        """A copy of this state."""
        return ProducerState(
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            self.last_timestamp_ms,
            self.current_txn_first_offset,
            self.batches,
        )

    @property
    def last_sequence(self) -> int:
        """The last batch's last sequence number, or -1."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The last batch's last offset, or -1."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def offset_delta(self) -> int:
        """The last batch's offset delta, or 0."""
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, batch: ProducerBatch) -> BatchMetadata | None:
        """The remembered batch that `batch` duplicates, or None."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        for known in self.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: ProducerBatch) -> None:
        """Checks a client's batch as the broker does, and raises the same errors."""
        if batch.producer_epoch < self.producer_epoch:
            raise InvalidProducerEpochError(
                f"epoch {batch.producer_epoch} is below the last seen {self.producer_epoch}",
                producer_id=batch.producer_id,
                offset=batch.base_offset,
            )
        if not batch.is_control:
            self._check_sequence(batch)
        elif batch.control_type >= 0 and self.coordinator_epoch > batch.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"coordinator epoch {batch.coordinator_epoch} is below the last seen {self.coordinator_epoch}",
                producer_id=batch.producer_id,
                offset=batch.base_offset,
            )

    def _check_sequence(self, batch: ProducerBatch) -> None:
        if self.producer_epoch == NO_PRODUCER_EPOCH:
            return  # nothing is known about this producer, so it may begin anywhere
        is_new = batch.producer_epoch != self.producer_epoch
        expected = 0 if is_new else increment_sequence(self.last_sequence, 1)
        if batch.base_sequence != expected:
            raise OutOfOrderSequenceError(
                f"sequence {batch.base_sequence} of epoch {batch.producer_epoch} cannot follow "
                f"{self.last_sequence} of epoch {self.producer_epoch}: expected {expected}",
                producer_id=batch.producer_id,
                offset=batch.base_offset,
            )

    def apply(self, batch: ProducerBatch) -> int:
        """Adds `batch` and returns the first offset of the transaction that it ends, or -1."""
        if not batch.is_control:
            self._apply_data(batch)
            return -1
        if batch.control_type < 0:
            return -1  # a control batch that has lost its record only makes its producer known
        if batch.control_type not in (CONTROL_ABORT, CONTROL_COMMIT):
            raise InvalidControlRecordError(
                f"a control record has type {batch.control_type}, but only abort ({CONTROL_ABORT}) "
                f"and commit ({CONTROL_COMMIT}) are allowed",
                producer_id=batch.producer_id,
                offset=batch.base_offset,
            )
        ended = self.current_txn_first_offset
        self._set_epoch(batch.producer_epoch)
        self.coordinator_epoch = batch.coordinator_epoch
        self.last_timestamp_ms = batch.timestamp_ms
        self.current_txn_first_offset = -1
        return ended

    def _apply_data(self, batch: ProducerBatch) -> None:
        if self.current_txn_first_offset >= 0 and not batch.is_transactional:
            raise InvalidTxnStateError(
                f"a batch is outside the transaction that is open since offset {self.current_txn_first_offset}",
                producer_id=batch.producer_id,
                offset=batch.base_offset,
            )
        self._set_epoch(batch.producer_epoch)
        delta = batch.last_offset - batch.base_offset
        self.batches.append(BatchMetadata(batch.last_sequence, batch.last_offset, delta, batch.timestamp_ms))
        self.last_timestamp_ms = batch.timestamp_ms
        if batch.is_transactional and self.current_txn_first_offset < 0:
            self.current_txn_first_offset = batch.base_offset

    def _set_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class PreparedAppend(NamedTuple):
    """A checked append, to commit once its bytes are in the log."""

    batches: deque[ProducerBatch]
    end_offset: int


class ProducerStates:
    """All producers of a partition and its open transactions, up to `map_end_offset`. Not
    thread-safe."""

    def __init__(self, *, expiration_ms: int = DAY_MS) -> None:
        self.expiration_ms = expiration_ms
        self.map_end_offset = 0
        self._capacity = DEFAULT_CAPACITY  # of the broker's HashMap, which determines a snapshot's order
        self._producers: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # first offset -> producer id, in offset order

    # -- looking ----------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of one producer, or None. Do not change it."""
        return self._producers.get(producer_id)

    def in_snapshot_order(self) -> list[ProducerState]:
        """All producers, in the order in which a broker writes them."""
        return [self._producers[key] for key in hash_map_order(self._producers, self._capacity)]

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of the earliest open transaction, or None. read_committed readers stop
        there."""
        return next(iter(self._ongoing), None)

    @property
    def ongoing_transactions(self) -> dict[int, int]:
        """The producer id by first offset of the open transactions, in offset order."""
        return dict(self._ongoing)

    # -- folding what the log holds ---------------------------------------------------------------
    def add(self, columns: BatchColumns) -> list[CompletedTxn]:
        """Adds a window of batches that are in the log, and returns the transactions that they
        complete.

        As in a replica, old epochs and sequence gaps are accepted. The transactions are in the
        order of their markers. Raises `ProducerStateError` for a batch that no broker writes.
        """
        completed = [txn for batch in producer_batches(columns) if (txn := self._take(batch)) is not None]
        if len(columns.last_offset):
            self.map_end_offset = int(columns.last_offset[-1]) + 1
        return completed

    def add_of(self, columns: BatchColumns, path: str) -> list[CompletedTxn]:
        """As `add`, for batches of the .log at `path`.

        Raises `CorruptError`, with the position in the .log, for a batch that no broker writes.
        """
        try:
            return self.add(columns)
        except ProducerStateError as error:
            place = int(np.argmax(columns.base_offset == error.offset))
            raise CorruptError(
                error.message,
                path=path,
                position=int(columns.position[place]),
                hint="logdex verify lists all damage, logdex recover saves batches with a correct CRC",
            ) from error

    def _take(self, batch: ProducerBatch) -> CompletedTxn | None:
        known = self._producers.get(batch.producer_id)
        state = known or ProducerState(batch.producer_id)
        was_open = state.current_txn_first_offset
        ended = state.apply(batch)
        if known is None:
            self._put(state)
        if ended < 0:
            if state.current_txn_first_offset != was_open:
                self._open_txn(state.current_txn_first_offset, state.producer_id)
            return None
        return self._complete(batch, ended)

    def _put(self, state: ProducerState) -> None:
        self._producers[state.producer_id] = state
        self._capacity = grown_capacity(self._capacity, len(self._producers))

    def _open_txn(self, first_offset: int, producer_id: int) -> None:
        latest = next(reversed(self._ongoing), -1)
        self._ongoing[first_offset] = producer_id
        if first_offset < latest:  # only in a log whose offsets decrease
            self._ongoing = dict(sorted(self._ongoing.items()))

    def _complete(self, marker: ProducerBatch, first_offset: int) -> CompletedTxn:
        others = (first for first, producer in self._ongoing.items() if producer != marker.producer_id)
        stable = next(others, marker.base_offset + 1)
        self._ongoing.pop(first_offset, None)
        is_aborted = marker.control_type == CONTROL_ABORT
        return CompletedTxn(marker.producer_id, first_offset, marker.base_offset, stable, is_aborted)

    # -- appending --------------------------------------------------------------------------------
    def prepare(self, columns: BatchColumns, *, is_client: bool = True) -> PreparedAppend:
        """Checks the batches of an append without changing the state.

        Raises the broker's error (see `logdex.errors`) if it would refuse them. Without `is_client`
        epochs and sequence numbers are not checked, as in a replica.
        """
        end_offset = int(columns.last_offset[-1]) + 1 if len(columns.last_offset) else self.map_end_offset
        batches = deque(producer_batches(columns, every=True))
        touched: dict[int, ProducerState] = {}
        for batch in batches:
            known = self._producers.get(batch.producer_id)
            state = touched.get(batch.producer_id)
            if state is None:
                state = known.copy() if known is not None else ProducerState(batch.producer_id)
                touched[batch.producer_id] = state
            if is_client:
                state.check(batch)
            state.apply(batch)
        return PreparedAppend(batches, end_offset)

    def commit(self, prepared: PreparedAppend, end_offset: int | None = None) -> list[CompletedTxn]:
        """Adds the batches of a `PreparedAppend` below `end_offset`, and returns the transactions
        that they complete.

        The state must not have changed since `prepare`. With `end_offset`, later calls can add the
        rest.
        """
        self.map_end_offset = prepared.end_offset if end_offset is None else end_offset
        completed = []
        while prepared.batches and prepared.batches[0].last_offset < self.map_end_offset:
            txn = self._take(prepared.batches.popleft())
            if txn is not None:
                completed.append(txn)
        return completed

    # -- forgetting and loading -------------------------------------------------------------------
    def is_expired(self, state: ProducerState, now_ms: int) -> bool:
        """Whether a producer without an open transaction has been silent for `expiration_ms`."""
        return state.current_txn_first_offset < 0 and now_ms - state.last_timestamp_ms >= self.expiration_ms

    def remove_expired(self, now_ms: int) -> None:
        """Removes the producers that are expired at `now_ms`."""
        self._producers = {key: state for key, state in self._producers.items() if not self.is_expired(state, now_ms)}

    def clear(self, map_end_offset: int) -> None:
        """Removes all producers; the next batch is at `map_end_offset`."""
        self._producers = {}
        self._ongoing = {}
        self.map_end_offset = map_end_offset

    def load(self, states: Iterable[ProducerState], map_end_offset: int, *, now_ms: int | None = None) -> None:
        """Replaces the state by a snapshot's producers at `map_end_offset`.

        With `now_ms`, expired producers are left out, as in the broker.
        """
        self.clear(map_end_offset)
        for state in states:
            if now_ms is None or not self.is_expired(state, now_ms):
                self._put(state)
        opened = [(s.current_txn_first_offset, s.producer_id) for s in self._producers.values()]
        self._ongoing = dict(sorted(pair for pair in opened if pair[0] >= 0))
