"""`.txnindex`: a segment's aborted transactions in the order of their markers, 34 bytes each.

Source: ``docs/formats/kafka-transaction-index.md``; Kafka's TransactionIndex, AbortedTxn. A segment
without aborted transactions has no such file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import CorruptError, UsageError
from logdex.io.env import DEFAULT_ENV, Env, WriteFile
from logdex.io.path_look import StrPath, path_text
from logdex.layout.kafka import TRANSACTION_INDEX_ENTRY
from logdex.primitives.shown import counted, repr_of

VERSION = 0
_ENTRY = TRANSACTION_INDEX_ENTRY.dtype
_SIZE_BYTES = TRANSACTION_INDEX_ENTRY.size_bytes


class AbortedTxn(NamedTuple):
    """One entry: the offsets of the transaction's first record and of its abort marker.

    `last_stable_offset` is the last stable offset after that marker.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TxnIndexSearchResult(NamedTuple):
    """Aborted transactions in a range. `is_complete`: the indexes of later segments are not
    needed."""

    aborted: list[AbortedTxn]
    is_complete: bool


def derive_transaction_index(aborted: Iterable[AbortedTxn]) -> bytes:
    """The file's bytes; empty (no file) without entries. Raises `UsageError` beyond 64-bit
    numbers."""
    return b"".join(TRANSACTION_INDEX_ENTRY.pack(VERSION, *_checked(transaction)) for transaction in aborted)


def _checked(transaction: AbortedTxn) -> AbortedTxn:
    for name, value in zip(AbortedTxn._fields, transaction, strict=True):
        if not -(1 << 63) <= value < 1 << 63:
            raise UsageError(f"{name} is {value}", hint=f"use at most {(1 << 63) - 1}")
    return transaction


class TransactionIndex:
    """The transaction index at `path` of the segment at `start_offset`.

    Bytes after the last whole entry are ignored. A reader sees the file as it was when opened,
    until `refresh`. With `writable`, one thread may append and truncate while others read.
    """

    def __init__(self, path: StrPath, start_offset: int, *, writable: bool = False, env: Env = DEFAULT_ENV) -> None:
        self.path = path_text(path)
        self.start_offset = start_offset
        self._env = env
        self._writable = writable
        self._file: WriteFile | None = None
        self._is_written = False
        """Whether bytes were written that are not synced."""
        self._data = b""
        self.refresh()

    def __repr__(self) -> str:
        return repr_of(self, repr(self.path), counted(self.size_bytes, "byte"))

    def refresh(self) -> None:
        """Reads the file again. A missing file is an empty index."""
        found = self._env.exists(self.path)
        self._data = self._env.read_file(self.path, limits.INDEX_SIZE_BYTES_MAX) if found else b""

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return len(self._data)

    def _entries(self) -> npt.NDArray[np.void]:
        data = self._data
        entries = np.frombuffer(data, _ENTRY, len(data) // _SIZE_BYTES)
        unknown = np.flatnonzero(entries["version"] > VERSION)
        if len(unknown):
            place = int(unknown[0])
            raise self._corrupt(place, "version", f"at most {VERSION}", int(entries["version"][place]))
        return entries

    def _corrupt(self, place: int, field: str, expected: object, found: object) -> CorruptError:
        return CorruptError(
            "the entry is invalid",
            path=self.path,
            position=place * _SIZE_BYTES + TRANSACTION_INDEX_ENTRY.offset_of(field),
            field=field,
            expected=expected,
            found=found,
            hint="rebuild derives the index from the log",
        )

    # -- reading ----------------------------------------------------------------------------------
    def all_aborted_txns(self) -> list[AbortedTxn]:
        """All entries, in file order."""
        return _transactions(self._entries())

    def collect_aborted_txns(self, fetch_offset: int, upper_bound_offset: int) -> TxnIndexSearchResult:
        """The aborted transactions with records from `fetch_offset` to `upper_bound_offset` - 1."""
        entries = self._entries()
        beyond = np.flatnonzero(entries["last_stable_offset"] >= upper_bound_offset)
        seen = entries[: beyond[0] + 1] if len(beyond) else entries
        touches = (seen["last_offset"] >= fetch_offset) & (seen["first_offset"] < upper_bound_offset)
        return TxnIndexSearchResult(_transactions(seen[touches]), len(beyond) > 0)

    def sanity_check(self) -> None:
        """Raises `CorruptError` for an invalid file.

        That is a size that is no multiple of 34, an unknown version, an entry that ends before the
        segment begins, and last offsets that do not increase.
        """
        left = self.size_bytes % _SIZE_BYTES
        if left:
            raise CorruptError(
                "the last entry is incomplete",
                path=self.path,
                position=self.size_bytes - left,
                expected=f"a multiple of {_SIZE_BYTES} bytes",
                found=self.size_bytes,
                hint="rebuild derives the index from the log",
            )
        last = self._entries()["last_offset"].astype(np.int64)
        early = np.flatnonzero(last < self.start_offset)
        if len(early):
            place = int(early[0])
            raise self._corrupt(place, "last_offset", f"at least {self.start_offset}", int(last[place]))
        falling = np.flatnonzero(last[1:] <= last[:-1])
        if len(falling):
            place = int(falling[0])
            raise self._corrupt(place + 1, "last_offset", f"more than {last[place]}", int(last[place + 1]))

    # -- writing ----------------------------------------------------------------------------------
    def append(self, *aborted: AbortedTxn) -> None:
        """Adds entries, all or none; the first one creates the file.

        Raises `UsageError` for last offsets that do not increase and for values beyond 64 bits.
        """
        if not aborted:
            return
        kept = self._data[: len(self._data) // _SIZE_BYTES * _SIZE_BYTES]
        last = _transactions(np.frombuffer(kept[-_SIZE_BYTES:], _ENTRY))[-1].last_offset if kept else -1
        for transaction in aborted:
            if transaction.last_offset <= last:
                raise UsageError(
                    f"{self.path}: aborted transactions are appended in the order of their markers: "
                    f"{transaction.last_offset} is not above {last}"
                )
            last = transaction.last_offset
        data = derive_transaction_index(aborted)
        self._is_written = True
        self._open().write_at(len(kept), data)
        self._data = kept + data

    def truncate_to(self, offset: int) -> None:
        """Removes the first entry whose marker is at `offset` or above, and all entries after
        it."""
        beyond = np.flatnonzero(self._entries()["last_offset"] >= offset)
        if len(beyond):
            self._cut(int(beyond[0]) * _SIZE_BYTES)

    def reset(self) -> None:
        """Empties the index. An existing file stays, with size 0."""
        if self._env.exists(self.path):
            self._cut(0)

    def _cut(self, size_bytes: int) -> None:
        self._is_written = True
        self._open().truncate(size_bytes)
        self._data = self._data[:size_bytes]

    def _open(self) -> WriteFile:
        if not self._writable:
            raise UsageError(f"{self.path}: opened for reading only")
        if self._file is None:
            self._file = self._env.open_write(self.path)
        return self._file

    def flush(self) -> None:
        """Writes the file's data to disk (fsync), if anything was written since the last time, also
        before `close`."""
        if not self._is_written or not self._env.exists(self.path):
            return
        self._is_written = False
        try:
            self._open().sync()
        except BaseException:
            self._is_written = True
            raise

    def close(self) -> None:
        """Closes the file without syncing it. Its entries stay readable."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        """Removes the file, if it exists."""
        self.close()
        self._env.remove(self.path)
        self._is_written = False
        self._data = b""

    def __enter__(self) -> TransactionIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _transactions(entries: npt.NDArray[np.void]) -> list[AbortedTxn]:
    return [AbortedTxn(*entry[1:]) for entry in entries.tolist()]
