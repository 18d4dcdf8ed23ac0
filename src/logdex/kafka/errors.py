"""What a log refuses, under the names of Kafka's own exceptions.

Bytes on disk that are wrong are `logdex.errors.CorruptError`; these are about a call that cannot be served.
"""

from __future__ import annotations

from logdex.errors import LogdexError, StoreError


class OffsetOutOfRangeError(StoreError):
    """An offset before the log's start or behind its end; `offset`, `log_start_offset`, `log_end_offset` say which."""

    def __init__(self, offset: int, *, path: str, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(
            f"offset {offset} is not in {log_start_offset} to {log_end_offset}",
            path=path,
            hint="ask for log_start_offset to log_end_offset",
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class RecordTooLargeError(StoreError):
    """A batch above max_message_bytes, or above segment_bytes (Kafka: RecordBatchTooLargeException)."""


class InvalidRecordError(StoreError):
    """Batches to append that no log takes: a wrong CRC, offsets that do not rise, records without a batch."""


class ProducerStateError(LogdexError):
    """Base of what the producer state refuses; nothing was appended. `producer_id` and `offset` (that the batch has or
    would have had) say which."""

    def __init__(self, message: str, *, producer_id: int, offset: int = -1, hint: str | None = None) -> None:
        super().__init__(f"producer {producer_id}, offset {offset}: {message}", hint=hint)
        self.producer_id = producer_id
        self.offset = offset


class OutOfOrderSequenceError(ProducerStateError):
    """A gap in a producer's sequence numbers, or a new epoch that does not begin at 0."""


class InvalidProducerEpochError(ProducerStateError):
    """A producer with an epoch below the one last seen: it is fenced."""


class InvalidTxnStateError(ProducerStateError):
    """A batch outside of a transaction by a producer that has one open."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """An end marker of a coordinator epoch below the one last seen."""


class InvalidControlRecordError(ProducerStateError):
    """A control record that is neither an abort nor a commit marker, in a log of producers."""


class LogInUseError(StoreError):
    """Another process, a running broker perhaps, or another `Log` of this one has the directory open for writing."""


class LogFailedError(StoreError):
    """A write or an fsync of this log has failed: nothing is appended or acknowledged before it is opened anew."""


class LogClosedError(StoreError):
    """The log was closed."""
