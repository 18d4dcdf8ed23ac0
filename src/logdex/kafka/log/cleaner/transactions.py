"""Tracks transactions while the cleaner reads a log: which batches are aborted, which markers may
be removed.

Source: Kafka's CleanedTransactionMetadata. A marker may be removed once no batch of its transaction
is left. The entry of an aborted transaction stays in the transaction index as long as its marker is
needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kernels.kafka.batch_columns import BatchColumns
from logdex.layout.kafka import BATCH_CONTROL, BATCH_TRANSACTIONAL, CONTROL_ABORT, CONTROL_COMMIT, MAGIC_V2

Bools = npt.NDArray[np.bool_]


class CleanedTransactions:
    """One pass over a log, from an offset at which no transaction is open. For one thread."""

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTxn]] = []  # a heap, by first offset
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        """Producers whose open transaction will be aborted and has batches."""
        self._committed: set[int] = set()
        """Producers whose open transaction will be committed and has batches."""
        self._retained: list[AbortedTxn] = []

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Adds aborted transactions whose batches or markers follow. Known ones may be added
        again."""
        for transaction in transactions:
            heapq.heappush(self._coming, (transaction.first_offset, transaction))

    def observe(self, columns: BatchColumns) -> Bools:
        """Adds a window and returns a mask of the batches that may be removed.

        These are batches of aborted transactions, and markers of transactions without remaining
        batches.
        """
        may_go = np.zeros(len(columns.position), np.bool_)
        marked = columns.attributes & (BATCH_TRANSACTIONAL | BATCH_CONTROL) != 0
        for place in np.flatnonzero(marked & (columns.magic == MAGIC_V2)).tolist():
            self._begin_up_to(int(columns.last_offset[place]))
            producer_id = int(columns.producer_id[place])
            if columns.attributes[place] & BATCH_CONTROL:
                is_empty = columns.count[place] == 0  # emptied by an earlier cleaning
                may_go[place] = is_empty or self._may_go(producer_id, int(columns.control_type[place]))
            elif producer_id in self._aborted:
                self._seen.add(producer_id)
                may_go[place] = True
            else:
                self._committed.add(producer_id)
        return may_go

    def take_retained(self) -> list[AbortedTxn]:
        """The aborted transactions whose markers are still needed, since the last call."""
        taken, self._retained = self._retained, []
        return taken

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            transaction = heapq.heappop(self._coming)[1]
            self._aborted.setdefault(transaction.producer_id, transaction)

    def _may_go(self, producer_id: int, control_type: int) -> bool:
        if control_type == CONTROL_ABORT:
            transaction = self._aborted.pop(producer_id, None)
            if transaction is None or producer_id not in self._seen:
                return True
            self._seen.discard(producer_id)
            self._retained.append(transaction)
            return False
        if control_type == CONTROL_COMMIT:
            if producer_id not in self._committed:
                return True
            self._committed.discard(producer_id)
        return False  # a marker that is needed, or a message of the quorum
