"""The files of one segment: its .log, the two sparse indexes over it, the index of aborted transactions.

Source: Kafka's LogSegment, LazyIndex. What is done with them is `LogSegment`'s.
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
from logdex.kafka.files import file_names as names
from logdex.kafka.segment.file_records import FileRecords
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kafka.segment.transaction_index import TransactionIndex
from logdex.kafka.settings.log_config import LogConfig

_Index = TypeVar("_Index", OffsetIndex, TimeIndex)
_SUFFIXES = {
    "offset_index": names.INDEX_SUFFIX,
    "time_index": names.TIME_INDEX_SUFFIX,
    "txn_index": names.TXN_INDEX_SUFFIX,
    "log": names.LOG_SUFFIX,
}
"""By the attribute that holds the file; the .log comes last, without which the others are nothing."""


def wall_clock_ms() -> int:
    """Now, in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class SegmentFiles:
    """The files of the segment at `base_offset`; `log` is open, the indexes are opened when they are first needed.

    Opened for reading, no byte is changed, and a missing index is one without entries; `writable`: files that are
    missing are created when they are needed. `suffix` is appended to the files' names (``.cleaned`` and the like);
    `count_zero_slots` is as of `IndexFile`, `open_files` as of `FileRecords`.
    """

    def __init__(
        self,
        directory: str,
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
        self.directory = directory
        self.base_offset = base_offset
        self.config = config or LogConfig()
        self._writable = writable
        self.suffix = suffix
        self.env = env
        self.clock_ms = clock_ms
        self.created_ms = clock_ms()
        """When it was opened, or emptied since."""
        self._count_zero_slots = count_zero_slots
        self.log = FileRecords(self.path_of(names.LOG_SUFFIX), writable=writable, env=env, open_files=open_files)

    def path_of(self, suffix: str) -> str:
        """The path of one of the segment's files: ``.log``, ``.index`` …"""
        return posixpath.join(self.directory, names.offset_file_name(self.base_offset, suffix) + self.suffix)

    @cached_property
    def offset_index(self) -> OffsetIndex:
        """The .index, opened when it is first needed."""
        return self._open_index(OffsetIndex, names.INDEX_SUFFIX)

    @cached_property
    def time_index(self) -> TimeIndex:
        """The .timeindex, opened when it is first needed."""
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
        """The .txnindex, opened when it is first needed."""
        return TransactionIndex(
            self.path_of(names.TXN_INDEX_SUFFIX), self.base_offset, writable=self._writable, env=self.env
        )

    def open_indexes(self) -> None:
        """Opens all three now, which makes those that are missing where the segment is writable: no append will."""
        for name in _SUFFIXES:
            getattr(self, name)

    def _opened(self) -> list[OffsetIndex | TimeIndex | TransactionIndex]:
        return [self.__dict__[name] for name in _SUFFIXES if name != "log" and name in self.__dict__]

    @property
    def size_bytes(self) -> int:
        """Bytes of the .log."""
        return self.log.size_bytes

    def flush(self) -> None:
        """fsync of every file that may have changed."""
        self.log.flush()
        for index in self._opened():
            index.flush()

    def change_file_suffixes(self, old: str, new: str, *, log_first: bool = False) -> None:
        """Renames all files that there are from one suffix behind their names to another; reads go on. The .log comes
        last or, with `log_first`, first: its new name is on disk before another one changes."""
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
                self.env.rename(before[name], self.path_of(ending))
            if name in self.__dict__:
                self.__dict__[name].path = self.path_of(ending)  # what an index has mapped or read, it keeps

    def delete_files(self) -> None:
        """Closes the segment and removes its files, as far as there are any; one that was in use takes its key index
        along."""
        self.close()
        for ending in _SUFFIXES.values():
            self.env.remove(self.path_of(ending))
        if self.suffix == names.DELETED_SUFFIX:
            key_index = names.offset_file_name(self.base_offset, names.KEY_INDEX_SUFFIX)
            self.env.remove(posixpath.join(self.directory, key_index))

    def release(self) -> None:
        """Gives descriptors back, for a segment that is not written any more; later uses open files again."""
        self.log.release()
        for index in self._opened():
            index.close() if isinstance(index, TransactionIndex) else index.release()

    def close(self) -> None:
        """Closes the files and changes none of them; `on_become_inactive` and `flush` before, where it was written."""
        for index in self._opened():
            index.close()
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
