"""Every error that Logdex raises on purpose.

Each error states what is wrong, where (file and byte position), what was expected and found, and
what to do next. `exit_code` is the exit status of the command line: 1 if problems were found, 2 if
the command could not run.
"""

from __future__ import annotations

import errno

_VALUE_SHOWN = 300
"""The most characters that a message has of a name or a value in a file."""


class LogdexError(Exception):
    """Base class of all typed errors. `hint` states what to type or do next."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message} ({self.hint})"

    def __reduce__(self) -> tuple[object, ...]:
        # Spark workers pickle errors for the driver, and the default pickling loses keyword
        # arguments.
        return _rebuild, (type(self), dict(self.__dict__), self.args)


def _rebuild(kind: type[LogdexError], state: dict[str, object], args: tuple[object, ...]) -> LogdexError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


def _shortened(value: object) -> str:
    """Returns the text of a value, of which a damaged or hostile file may have megabytes."""
    text = str(value)
    return text if len(text) <= _VALUE_SHOWN else f"{text[: _VALUE_SHOWN - 3]}..."


class UsageError(LogdexError):
    """The call or the command line asks for something impossible."""


class EnvironmentProblem(LogdexError):
    """The machine lacks something that is needed: Java, a package, disk space."""


class StoreError(LogdexError):
    """A problem with one file or directory, which `path` names."""

    def __init__(self, message: str, *, path: str, hint: str | None = None) -> None:
        super().__init__(f"{path}: {message}", hint=hint)
        self.path = path


class NotAStoreError(StoreError):
    """The path holds nothing that Logdex can read."""


class UnsupportedLayoutError(StoreError):
    """The layout is recognised but not supported. The message names it."""


class GeometryError(StoreError):
    """Sizes that are stored in no file are ambiguous or contradict each other."""


class MissingFileError(StoreError):
    """A required file is missing, such as a CommitLog file between two others."""


class StorageError(StoreError):
    """The operating system refused an operation (unreadable, full, gone). `errno` is its error
    number."""

    def __init__(self, message: str, *, path: str, errno: int | None = None, hint: str | None = None) -> None:
        super().__init__(message, path=path, hint=hint)
        self.errno = errno


class VanishedError(StorageError, MissingFileError):
    """The system has nothing at a path: it never was there, or it was removed since its directory
    was listed."""


class UnreadableError(StorageError):
    """Bytes [`position`, `end_position`) of a file cannot be read: the disk cannot, or the file was
    truncated while it was read. `size_bytes` is then its new size."""

    def __init__(self, *, path: str, position: int, end_position: int, size_bytes: int | None = None) -> None:
        if size_bytes is None:
            reason = f"bytes {position} to {end_position} cannot be read"
            hint = "the disk or the file system fails: copy what can be read to another one"
        else:
            reason = f"the file was truncated to {size_bytes} bytes while it was read"
            hint = "try again"
        super().__init__(f"byte {position}: {reason}", path=path, errno=errno.EIO, hint=hint)
        self.reason = reason
        self.position = position
        self.end_position = end_position
        self.size_bytes = size_bytes


class UnusableFileError(UnreadableError):
    """What is at a path is not read: a directory, a FIFO, a socket, a symbolic link that leads to
    nothing or to itself, or a file larger than any of its kind."""

    def __init__(self, reason: str, *, path: str, errno: int | None = None) -> None:
        StorageError.__init__(self, reason, path=path, errno=errno, hint="look at what it is, and move it away")
        self.reason = reason
        self.position = self.end_position = 0
        self.size_bytes = None


def located(error: StorageError, position: int, size_bytes: int) -> StorageError:
    """Returns the error of a read of `size_bytes` bytes at `position`: an `UnreadableError` if the
    disk cannot read them, else `error` itself."""
    if error.errno != errno.EIO or isinstance(error, UnreadableError):
        return error
    return UnreadableError(path=error.path, position=position, end_position=position + size_bytes)


class CorruptError(StoreError):
    """Bytes on disk are invalid. `path` and `position` (a byte position in that file) locate
    them."""

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
            text += f" [{_shortened(field)}]"
        if expected is not None or found is not None:
            text += f": expected {_shortened(expected)}, found {_shortened(found)}"
        super().__init__(text, path=path, hint=hint)
        self.position = position
        self.end_position: int | None = None
        """Where reading continues behind the damage, if that is known."""
        self.field = field
        self.expected = expected
        self.found = found

    @property
    def description(self) -> str:
        """What is wrong, without the location: `message` after its path and byte position."""
        return self.message.removeprefix(f"{self.path}: ").removeprefix(f"byte {self.position}: ")


class TruncatedError(CorruptError):
    """The file ends before the value does."""


class LostSegmentError(CorruptError):
    """The .log of a segment is not there, or is empty, and the segment's indexes tell that it had
    batches."""

    def __init__(self, why: str, lost: str, *, path: str) -> None:
        StoreError.__init__(self, f"{why}: {lost}", path=path, hint="restore it from a replica or a backup")
        self.position, self.end_position = 0, None
        self.field = self.expected = self.found = None


class CrcMismatchError(CorruptError):
    """A stored checksum differs from the checksum of the bytes."""


class OffsetOverflowError(CorruptError):
    """An offset does not fit in an index of its segment: it must be 0 to 2^31-1 above the base
    offset."""


class OffsetOrderError(CorruptError):
    """An offset or a timestamp does not increase where an index requires it."""


class IndexFullError(StoreError):
    """A preallocated index has no room for another entry. Roll the segment first."""


# Errors of a log that refuses a call. Where Kafka has the same error, the name is Kafka's.


class OffsetOutOfRangeError(StoreError):
    """The offset is before the log start offset or after the log end offset."""

    def __init__(
        self, offset: int, *, path: str, log_start_offset: int, log_end_offset: int, hint: str | None = None
    ) -> None:
        starts = f"it starts at {log_start_offset}: " if offset < log_start_offset else ""
        super().__init__(
            f"offset {offset} is not in {log_start_offset} to {log_end_offset}",
            path=path,
            hint=hint or f"{starts}give one from {log_start_offset} to {log_end_offset}, the end",
        )
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class RecordTooLargeError(StoreError):
    """A batch exceeds max_message_bytes or segment_bytes (Kafka: RecordBatchTooLargeException)."""


class InvalidRecordError(StoreError):
    """Batches to append are invalid: a wrong CRC, offsets that do not increase, or records outside
    a batch."""


class ProducerStateError(LogdexError):
    """Base class of the errors of the producer state. The append was refused as a whole.

    `producer_id` names the producer, `offset` the offset that the batch has or would have had.
    """

    def __init__(self, message: str, *, producer_id: int, offset: int = -1, hint: str | None = None) -> None:
        super().__init__(f"producer {producer_id}, offset {offset}: {message}", hint=hint)
        self.producer_id = producer_id
        self.offset = offset


class OutOfOrderSequenceError(ProducerStateError):
    """A producer's sequence numbers have a gap, or a new epoch does not begin at sequence 0."""


class InvalidProducerEpochError(ProducerStateError):
    """The producer's epoch is below its last known epoch: the producer is fenced."""


class InvalidTxnStateError(ProducerStateError):
    """A producer with an open transaction sent a batch outside it."""


class TransactionCoordinatorFencedError(ProducerStateError):
    """An end transaction marker has a coordinator epoch below the last known one."""


class InvalidControlRecordError(ProducerStateError):
    """A control record that is neither an abort nor a commit marker, in a log that has producer
    state."""


class LogInUseError(StoreError):
    """The directory is open for writing elsewhere: in another process, or as another `Log` of this
    one."""


class LogFailedError(StoreError):
    """A write or an fsync of this log failed. Nothing is appended or acknowledged until it is
    reopened."""


class LogClosedError(StoreError):
    """The log is closed."""


# Errors between a master and a slave.


class ConnectionLostError(LogdexError):
    """The other side of a connection cannot be reached, ended the connection, or is silent. It may
    be tried again."""


class ProtocolError(LogdexError):
    """The other side sent something that its protocol does not allow. It may be another kind of
    server."""

    exit_code = 1


class NotAPrefixError(StoreError):
    """A slave's log is not the beginning of its master's log: the master's log is another one, or
    is shorter, or no longer has what would follow."""

    exit_code = 1


class IncompleteReadWarning(UserWarning):
    """A stream of rows lacks something that could not be read, and nothing else can say so."""


class UnfinishedPublicationWarning(UserWarning):
    """A command that replaces files was killed in the directory that is opened, or is at work there
    now: some files are new, and some are as before. The text states what to type."""
