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
