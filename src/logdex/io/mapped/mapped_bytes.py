"""A file that is mapped into memory, as an array of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from logdex.errors import CorruptError
from logdex.io.name_changes import NameChanges
from logdex.io.record_lock import Identity

if TYPE_CHECKING:
    from logdex.io.mapped.byte_array import ByteArray


class MappedBytes:
    """A mapped file; `array` is its bytes (uint8). Close it only when no kernel uses `array`. The
    end of a ``with`` block raises `UnreadableError` if bytes that were used in it cannot be read
    (`logdex.io.mapped`)."""

    def __init__(
        self, env: NameChanges, path: str, array: ByteArray, writable: Any = None, *, identity: Identity | None = None
    ) -> None:
        """`writable` is the `mmap` object of a writable mapping."""
        self.path = path
        self.identity = identity
        self._env = env
        self._writable = writable
        self.array = array

    def close(self) -> None:
        """Unmaps the file, once no other array refers to the mapping."""
        # Imports nothing: what a program leaves open is closed when the interpreter ends.
        self.array, self._writable = self.array[:0].copy(), None

    def flush(self) -> None:
        """Writes changed pages to disk (writable mappings only)."""
        if self._writable is not None:
            with self._env.operation("flush", self.path):
                self._writable.flush()

    def __enter__(self) -> MappedBytes:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        array = self.array
        self.close()
        if error is None or isinstance(error, CorruptError):  # zeros in place of unreadable bytes are no corruption
            from logdex.io.mapped.mapping import require_no_faults  # imported by whoever maps a file

            require_no_faults(array)
