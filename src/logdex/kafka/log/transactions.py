"""A transaction of one producer on one partition.

Source: Kafka's KafkaProducer, TransactionCoordinator (the parts for a single log).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Protocol

from logdex.errors import UsageError
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.log.append import AppendInfo
from logdex.kafka.state.producer_state import ProducerState
from logdex.primitives.shown import repr_of
from logdex.primitives.wrong_questions import require_given


class TransactionalLog(Protocol):
    """The methods of `Log` that a transaction uses."""

    @property
    def append(self) -> Callable[..., AppendInfo]:
        """Appends records."""

    def append_end_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> AppendInfo:
        """Appends the marker that ends a transaction."""

    def producer(self, producer_id: int) -> ProducerState | None:
        """A copy of the state of a producer, or None."""


class Transaction:
    """The result of `Log.transaction`: append with it, then `commit` or `abort`, or leave that to
    ``with``.

    Records are written at once, and read_uncommitted readers see them; read_committed readers see
    them after `commit`. For one thread. A transaction without records writes nothing. One that is
    not ended when its log is closed stays open in the log.

    A producer has one transaction at a time: the first `append` of another raises `UsageError`. One
    that a killed process has left open is aborted then, as a broker does when a producer begins.
    `in_transaction` holds the transactions of a log that have begun so, by producer.
    """

    def __init__(
        self, log: TransactionalLog, producer_id: int, producer_epoch: int, in_transaction: dict[int, object]
    ) -> None:
        require_given(producer_id=producer_id, producer_epoch=producer_epoch)
        if producer_id < 0 or producer_epoch < 0:
            raise UsageError(
                f"producer {producer_id} with epoch {producer_epoch} is invalid", hint="use 0 or more for both"
            )
        self._log, self._in_transaction = log, in_transaction
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._is_begun = self._has_records = False
        self._is_over = False

    def __repr__(self) -> str:
        state = "ended" if self._is_over else "open" if self._has_records else "open, no records"
        return repr_of(self, f"producer {self.producer_id}, epoch {self.producer_epoch}", state)

    def append(
        self,
        records: Record | Iterable[Record],
        *,
        compression: str | Compression = Compression.NONE,
        sequence: int | None = None,
        leader_epoch: int | None = None,
    ) -> AppendInfo:
        """`Log.append` as part of the transaction."""
        self._require_open()
        if not self._is_begun:
            self._begin()
        info = self._log.append(
            records,
            compression=compression,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=sequence,
            transactional=True,
            leader_epoch=leader_epoch,
        )
        self._has_records = True
        return info

    def _begin(self) -> None:
        if self._in_transaction.setdefault(self.producer_id, self) is not self:
            raise UsageError(
                f"producer {self.producer_id} is in a transaction", hint="end that one, or use another producer id"
            )
        self._is_begun = True
        left = self._log.producer(self.producer_id)
        if left is not None and left.current_txn_first_offset >= 0:
            self._log.append_end_marker(self.producer_id, left.producer_epoch, commit=False)

    def commit(self) -> AppendInfo | None:
        """Commits the transaction. Returns the append of the marker, or None without records."""
        return self._end(commit=True)

    def abort(self) -> AppendInfo | None:
        """Aborts the transaction. Returns the append of the marker, or None without records."""
        return self._end(commit=False)

    def _end(self, *, commit: bool) -> AppendInfo | None:
        self._require_open()
        self._is_over = True
        if self._is_begun:
            del self._in_transaction[self.producer_id]
        if not self._has_records:
            return None
        return self._log.append_end_marker(self.producer_id, self.producer_epoch, commit=commit)

    def _require_open(self) -> None:
        if self._is_over:
            raise UsageError("the transaction has ended", hint="begin another one")

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_over:
            self._end(commit=kind is None)
