"""Every error that Logdex raises on purpose.

Each carries what a person needs: what is wrong, where (file, byte), what was expected and found, and what to type next.
``exit_code`` is what the command line ends with: 1 problems found, 2 cannot run.
"""

from __future__ import annotations


class LogdexError(Exception):
    """Base of all typed errors; `hint` says what to type or do next."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"

    def __reduce__(self) -> tuple[object, ...]:
        # Workers send errors to the driver pickled; keyword arguments do not survive the default way.
        return _rebuild, (type(self), dict(self.__dict__), self.args)


def _rebuild(kind: type[LogdexError], state: dict[str, object], args: tuple[object, ...]) -> LogdexError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(LogdexError):
    """The call or the command line asks for something that cannot be."""


class EnvironmentProblem(LogdexError):
    """The machine lacks something: a Java, a package, disk space."""


class StoreError(LogdexError):
    """Something about one file or directory, named by `path`."""

    def __init__(self, message: str, *, path: str, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path


class NotAStoreError(StoreError):
    """The path holds nothing that Logdex reads."""


class UnsupportedLayoutError(StoreError):
    """A layout that is recognised and not supported, named in the message."""


class GeometryError(StoreError):
    """File sizes that no store file states are ambiguous or contradict each other."""


class MissingFileError(StoreError):
    """A file that must be there is not: a CommitLog file in the middle, an offset that no file holds."""


class StorageError(StoreError):
    """The operating system refused: unreadable, full, gone. `errno` is the system's number."""

    def __init__(self, message: str, *, path: str, errno: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, path=path, hint=hint)
        self.errno = errno


class CorruptError(StoreError):
    """Bytes on disk that cannot be what they should be, located by `path` and `position` (byte in that file)."""

    exit_code = 1

    def __init__(
        self,
        message: str,
        *,
        path: str,
        position: int,
        field: str | None = None,
        expected: object = None,
        found: object = None,
        hint: str | None = None,
    ) -> None:
        text = f"byte {position}: {message}"
        if field is not None:
            text += f" [{field}]"
        if expected is not None or found is not None:
            text += f": expected {expected}, found {found}"
        super().__init__(text, path=path, hint=hint)
        self.position = position
        self.field = field
        self.expected = expected
        self.found = found

    @property
    def description(self) -> str:
        """What is wrong, without the place: `message` behind its path and byte."""
        return self.message.removeprefix(f"{self.path}: byte {self.position}: ")


class TruncatedError(CorruptError):
    """The bytes end before the value does."""


class CrcMismatchError(CorruptError):
    """A stored checksum is not that of the bytes."""


class OffsetOverflowError(CorruptError):
    """An offset that an index of its segment cannot hold: it must be 0 to 2^31-1 above the segment's base offset."""


class OffsetOrderError(CorruptError):
    """An offset or a timestamp that does not rise where an index needs it to."""


class IndexFullError(StoreError):
    """A preallocated index has no room for another entry: its segment must be rolled first."""


# What a log refuses: a call that cannot be served. The names of those that Kafka has are Kafka's own.


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
