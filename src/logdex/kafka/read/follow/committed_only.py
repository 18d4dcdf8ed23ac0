"""Holds the batches of a followed log back until their transactions have ended."""

from __future__ import annotations

from collections import deque

from logdex.kafka.batch.record_batch import RecordBatch
from logdex.kafka.read.committed import AbortedTransactions, TransactionFold
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.transaction_index import AbortedTxn
from logdex.kafka.state.producer_state import ProducerStates

_ABORTED_MAX = 4096


class CommittedOnly:
    """Holds batches back until their transactions have ended, and returns the committed ones in log
    order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[RecordBatch, int]] = deque()
        """Every batch from the first undecided one on, with the offset of its first record to
        return."""
        self._fold = TransactionFold()
        self._aborted: list[AbortedTxn] = []
        self._ended: deque[AbortedTxn] = deque(maxlen=_ABORTED_MAX)
        """The last aborted transactions, whose records were passed over."""

    def first_reopened(self, cut_from: int) -> int | None:
        """The first offset of the aborted transactions whose markers are no longer in the log,
        which was cut from offset `cut_from` on: they can still be committed. None without any."""
        return min((txn.first_offset for txn in self._ended if txn.last_offset >= cut_from), default=None)

    def restart(self, producers: ProducerStates, kept_below: int) -> None:
        """Continues with the producer states `producers`. Of the waiting batches, those below
        `kept_below` are kept."""
        self._waiting = deque(each for each in self._waiting if each[0].last_offset < kept_below)
        self._fold = TransactionFold(producers)
        self._aborted = [txn for txn in self._aborted if txn.last_offset < kept_below]
        self._ended = deque((txn for txn in self._ended if txn.last_offset < kept_below), _ABORTED_MAX)

    def take(self, batches: list[RecordBatch], start: int) -> list[tuple[RecordBatch, int]]:
        """Adds `batches`, whose records below `start` are not returned. Returns the batches that
        are committed by now, each with its `start`."""
        self._waiting.extend((batch, start) for batch in batches)
        raw = b"".join(batch.raw for batch in batches)
        for window in BatchScanner(check_crc=False).scan_bytes(raw):
            ended = self._fold.add(window.columns)
            self._aborted += ended
            self._ended += ended
        open_from = self._fold.first_open_offset
        aborted, given = AbortedTransactions(self._aborted), []
        while self._waiting and (open_from is None or self._waiting[0][0].base_offset < open_from):
            batch, begin = self._waiting.popleft()
            if not aborted.has(batch):
                given.append((batch, begin))
        if not self._waiting:
            self._aborted.clear()
        return given
