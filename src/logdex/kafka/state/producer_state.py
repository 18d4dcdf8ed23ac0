"""What a partition knows of its producers: the fold over batches that defines `.snapshot` and `.txnindex`.

`ProducerStates.add` folds what is already in the log (recovery, rebuild, verify); `prepare` and `commit` check and fold
what a client appends. Source: ``docs/formats/kafka-producer-snapshot.md``; Kafka's ProducerStateManager,
ProducerAppendInfo, ProducerStateEntry.

One replica: what is completed is replicated, so the first unstable offset is that of the earliest open transaction.
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
    """A batch as its producer's state remembers it. `offset_delta`: last offset - first offset."""

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
        """The batch's first sequence; sequences wrap from 2^31 - 1 to 0."""
        return decrement_sequence(self.last_sequence, self.offset_delta)


class CompletedTxn(NamedTuple):
    """A transaction that an end marker closed: offsets of its first record and of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool

    def to_aborted(self) -> AbortedTxn:
        """The entry that an aborted one has in the transaction index."""
        return AbortedTxn(*self[:4])


def aborted_of(completed: Iterable[CompletedTxn]) -> list[AbortedTxn]:
    """What the transaction index says of transactions that end markers closed: the aborted ones."""
    return [txn.to_aborted() for txn in completed if txn.is_aborted]


class ProducerState:
    """What is known of one producer; -1 for what is not. `batches` are its last ones of this epoch, oldest first."""

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
        """Another one that says the same."""
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
        """Of the last batch, -1 without one."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Of the last batch, -1 without one."""
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def offset_delta(self) -> int:
        """Of the last batch, 0 without one."""
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, batch: ProducerBatch) -> BatchMetadata | None:
        """The remembered batch that `batch` repeats."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        for known in self.batches:
            if known.last_sequence == batch.last_sequence and known.first_sequence == batch.base_sequence:
                return known
        return None

    def check(self, batch: ProducerBatch) -> None:
        """What a broker asks of a batch from a client: raises the error that it answers with."""
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
            return  # nothing is known of this producer: it may begin anywhere
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
        """Takes `batch` in; the first offset of the transaction that it ends, else -1."""
        if not batch.is_control:
            self._apply_data(batch)
            return -1
        if batch.control_type < 0:
            return -1  # a control batch that has lost its record only makes its producer known
        if batch.control_type not in (CONTROL_ABORT, CONTROL_COMMIT):
            raise InvalidControlRecordError(
                f"control record of type {batch.control_type} where only abort ({CONTROL_ABORT}) "
                f"and commit ({CONTROL_COMMIT}) can be",
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
                f"a batch outside any transaction while that of offset {self.current_txn_first_offset} is open",
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
    """A checked append, to be committed once its bytes are in the log. With `duplicate` nothing is to be written: the
    batch is in the log already, there."""

    batches: deque[ProducerBatch]
    end_offset: int
    duplicate: BatchMetadata | None = None


class ProducerStates:
    """All producers of a partition and its open transactions, up to `map_end_offset`. One thread at a time."""

    def __init__(self, *, expiration_ms: int = DAY_MS) -> None:
        self.expiration_ms = expiration_ms
        self.map_end_offset = 0
        self._capacity = DEFAULT_CAPACITY  # of the broker's HashMap, which gives a snapshot its order
        self._producers: dict[int, ProducerState] = {}
        self._ongoing: dict[int, int] = {}  # first offset -> producer id, in the order of offsets

    # -- looking -------------------------------------------------------------------------------------------------------
    def __len__(self) -> int:
        return len(self._producers)

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of one producer. Not to be changed."""
        return self._producers.get(producer_id)

    def in_snapshot_order(self) -> list[ProducerState]:
        """All producers in the order in which a broker writes them."""
        return [self._producers[key] for key in hash_map_order(self._producers, self._capacity)]

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the earliest open transaction begins: readers of committed records stop there."""
        return next(iter(self._ongoing), None)

    @property
    def ongoing_transactions(self) -> dict[int, int]:
        """Producer id by first offset, of the open transactions; in the order of offsets."""
        return dict(self._ongoing)

    # -- folding what the log holds ------------------------------------------------------------------------------------
    def add(self, columns: BatchColumns) -> list[CompletedTxn]:
        """Takes in the batches of a window of the log, as a replica does (old epochs and gaps are facts, not errors);
        the transactions that they end, in the order of their markers. Raises a `ProducerStateError` for what no broker
        writes."""
        completed = [txn for batch in producer_batches(columns) if (txn := self._take(batch)) is not None]
        if len(columns.last_offset):
            self.map_end_offset = int(columns.last_offset[-1]) + 1
        return completed

    def add_of(self, columns: BatchColumns, path: str) -> list[CompletedTxn]:
        """`add` of batches of a .log, `path`: what no broker writes is a `CorruptError`, located there."""
        try:
            return self.add(columns)
        except ProducerStateError as error:
            place = int(np.argmax(columns.base_offset == error.offset))
            raise CorruptError(
                error.message,
                path=path,
                position=int(columns.position[place]),
                hint="logdex verify lists all damage, logdex recover saves what has a right checksum",
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
        if first_offset < latest:  # only in a log whose offsets fall
            self._ongoing = dict(sorted(self._ongoing.items()))

    def _complete(self, marker: ProducerBatch, first_offset: int) -> CompletedTxn:
        others = (first for first, producer in self._ongoing.items() if producer != marker.producer_id)
        stable = next(others, marker.base_offset + 1)
        self._ongoing.pop(first_offset, None)
        is_aborted = marker.control_type == CONTROL_ABORT
        return CompletedTxn(marker.producer_id, first_offset, marker.base_offset, stable, is_aborted)

    # -- appending -----------------------------------------------------------------------------------------------------
    def prepare(self, columns: BatchColumns, *, is_client: bool = True) -> PreparedAppend:
        """Checks what a client is about to append, without an effect; raises the broker's error (`logdex.errors`)
        where it would refuse. Not `is_client`: a replica, whose epochs and sequences are facts."""
        end_offset = int(columns.last_offset[-1]) + 1 if len(columns.last_offset) else self.map_end_offset
        batches = deque(producer_batches(columns, every=True))
        touched: dict[int, ProducerState] = {}
        for batch in batches:
            known = self._producers.get(batch.producer_id)
            if is_client and known is not None and not batch.is_control:
                duplicate = known.find_duplicate(batch)
                if duplicate is not None:
                    return PreparedAppend(deque(), self.map_end_offset, duplicate)
            state = touched.get(batch.producer_id)
            if state is None:
                state = known.copy() if known is not None else ProducerState(batch.producer_id)
                touched[batch.producer_id] = state
            if is_client:
                state.check(batch)
            state.apply(batch)
        return PreparedAppend(batches, end_offset)

    def commit(self, prepared: PreparedAppend, end_offset: int | None = None) -> list[CompletedTxn]:
        """Takes in what `prepare` found good (nothing else may have come between), of it what lies below `end_offset`
        and was not taken in yet; the transactions that it ends."""
        self.map_end_offset = prepared.end_offset if end_offset is None else end_offset
        completed = []
        while prepared.batches and prepared.batches[0].last_offset < self.map_end_offset:
            txn = self._take(prepared.batches.popleft())
            if txn is not None:
                completed.append(txn)
        return completed

    # -- forgetting and loading ----------------------------------------------------------------------------------------
    def is_expired(self, state: ProducerState, now_ms: int) -> bool:
        """Whether a producer has been silent for `expiration_ms`, without an open transaction."""
        return state.current_txn_first_offset < 0 and now_ms - state.last_timestamp_ms >= self.expiration_ms

    def remove_expired(self, now_ms: int) -> None:
        """Forgets the producers that are expired at `now_ms`."""
        self._producers = {key: state for key, state in self._producers.items() if not self.is_expired(state, now_ms)}

    def clear(self, map_end_offset: int) -> None:
        """Forgets everything; the next batch is at `map_end_offset`."""
        self._producers = {}
        self._ongoing = {}
        self.map_end_offset = map_end_offset

    def load(self, states: Iterable[ProducerState], map_end_offset: int, *, now_ms: int | None = None) -> None:
        """Replaces everything by a snapshot's producers, taken at `map_end_offset`; with `now_ms`, as the broker does,
        without those that have expired."""
        self.clear(map_end_offset)
        for state in states:
            if now_ms is None or not self.is_expired(state, now_ms):
                self._put(state)
        opened = [(s.current_txn_first_offset, s.producer_id) for s in self._producers.values()]
        self._ongoing = dict(sorted(pair for pair in opened if pair[0] >= 0))
