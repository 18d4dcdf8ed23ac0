"""The files of one segment: its .log, its offset index and time index, its transaction index.

Source: Kafka's LogSegment, LazyIndex. `LogSegment` implements the operations on them.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable
from functools import cached_property
from typing import Self, TypeVar

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.kafka.files import file_names as names
from logdex.kafka.segment.file_records import FileRecords
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.sparse_index import IndexFile
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kafka.segment.transaction_index import TransactionIndex
from logdex.kafka.settings.log_config import LogConfig
from logdex.primitives.shown import counted, repr_of

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)
_SUFFIXES = {
    "offset_index": names.INDEX_SUFFIX,
    "time_index": names.TIME_INDEX_SUFFIX,
    "txn_index": names.TXN_INDEX_SUFFIX,
    "log": names.LOG_SUFFIX,
}
"""Suffixes by attribute. The .log comes last, because the other files are useless without it."""


def wall_clock_ms() -> int:
    """The current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SegmentFiles:
    """The files of the segment at `base_offset`. An index is opened when it is first used.

    Without `writable` no byte is changed, and a missing index has no entries. With `writable`
    missing files are created when they are needed. `suffix` is appended to the file names
    (``.cleaned`` and the like). For `count_zero_slots` see `IndexFile`, for `open_files` see
    `FileRecords`.
    """

    def __init__(
        self,
        directory: StrPath,
        base_offset: int,
        config: LogConfig | None = None,
        *,
        writable: bool = False,
        env: Env = DEFAULT_ENV,
        open_files: OpenFiles | None = None,
        suffix: str = "",
        count_zero_slots: bool = False,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        self.directory = path_text(directory)
        self.base_offset = base_offset
        self.config = config or LogConfig()
        self._writable = writable
        self.suffix = suffix
        self.env = env
        self.clock_ms = clock_ms
        self.created_ms = clock_ms()
        """When the segment was opened, or last emptied."""
        self._count_zero_slots = count_zero_slots
        self.log = FileRecords(self.path_of(names.LOG_SUFFIX), writable=writable, env=env, open_files=open_files)

    def __repr__(self) -> str:
        return repr_of(self, repr(self.log.path), f"base offset {self.base_offset}", counted(self.size_bytes, "byte"))

    def path_of(self, suffix: str) -> str:
        """The path of the segment's file with this suffix, such as ``.log`` or ``.index``."""
        return posixpath.join(self.directory, names.offset_file_name(self.base_offset, suffix) + self.suffix)

    @cached_property
    def offset_index(self) -> OffsetIndex:
        """The .index, opened when it is first used."""
        return self._open_index(OffsetIndex, names.INDEX_SUFFIX)

    @cached_property
    def time_index(self) -> TimeIndex:
        """The .timeindex, opened when it is first used."""
        return self._open_index(TimeIndex, names.TIME_INDEX_SUFFIX)

    def _open_index(self, kind: type[_Index], suffix: str) -> _Index:
        return kind(
            self.path_of(suffix),
            self.base_offset,
            max_size_bytes=self.config.segment_index_bytes,
            writable=self._writable,
            count_zero_slots=self._count_zero_slots,
            env=self.env,
        )

    @cached_property
    def txn_index(self) -> TransactionIndex:
        """The .txnindex, opened when it is first used."""
        return TransactionIndex(
            self.path_of(names.TXN_INDEX_SUFFIX), self.base_offset, writable=self._writable, env=self.env
        )

    def open_indexes(self) -> None:
        """Opens the three indexes now; a writable segment creates missing ones."""
        for name in _SUFFIXES:
            getattr(self, name)

    def _opened(self) -> list[OffsetIndex | TimeIndex | TransactionIndex]:
        return [self.__dict__[name] for name in _SUFFIXES if name != "log" and name in self.__dict__]

    @property
    def size_bytes(self) -> int:
        """The size of the .log."""
        return self.log.size_bytes

    def flush(self) -> None:
        """Writes all files that may have changed to disk (fsync)."""
        self.log.flush()
        for index in self._opened():
            index.flush()

    def change_file_suffixes(self, old: str, new: str, *, log_first: bool = False) -> None:
        """Renames all files from the suffix `old` to `new`, while readers continue.

        The .log is renamed last or, with `log_first`, first: its new name is then on disk before
        another file is renamed.
        """
        if old != self.suffix:
            raise UsageError(f"{self.log.path}: its suffix is {self.suffix!r}, not {old!r}")
        before = {name: self.path_of(ending) for name, ending in _SUFFIXES.items()}
        self.release()
        self.suffix = new
        if log_first:
            self.log.rename(self.path_of(names.LOG_SUFFIX))
            self.env.sync_dir(self.directory)
        for name, ending in _SUFFIXES.items():
            if name == "log":
                if not log_first:
                    self.log.rename(self.path_of(ending))
            elif self.env.exists(before[name]):
                self._rename_index(name, before[name], self.path_of(ending))
            if name in self.__dict__:
                self.__dict__[name].path = self.path_of(ending)  # the index keeps its mapping or contents

    def _rename_index(self, name: str, before: str, path: str) -> None:
        index = self.__dict__.get(name)
        if isinstance(index, IndexFile):
            index.rename(path)  # no reader maps it meanwhile
        else:
            self.env.rename(before, path)

    def delete_files(self) -> None:
        """Closes the segment and removes its files, if they exist.

        With the suffix ``.deleted`` its key index is removed as well.
        """
        self.close()
        for ending in _SUFFIXES.values():
            self.env.remove(self.path_of(ending))
        if self.suffix == names.DELETED_SUFFIX:
            self._remove_key_index()

    def _remove_key_index(self) -> None:
        """Removes the key index, which is of use only for the .log that it was built from."""
        name = names.offset_file_name(self.base_offset, names.KEY_INDEX_SUFFIX)
        self.env.remove(posixpath.join(self.directory, name))

    def cut_log(self, size_bytes: int) -> int:
        """Truncates the .log and returns the number of bytes removed. If there are any, the key
        index is removed first."""
        if size_bytes < self.size_bytes and not self.suffix:
            self._remove_key_index()
        return self.log.truncate_to(size_bytes)

    def release(self) -> None:
        """Closes the descriptors of a segment that is no longer written. Later use opens them
        again."""
        self.log.release()
        for index in self._opened():
            index.close() if isinstance(index, TransactionIndex) else index.release()

    def close(self) -> None:
        """Closes the files without changing them. After writing, call `on_become_inactive` and
        `flush` first."""
        for index in self._opened():
            index.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
