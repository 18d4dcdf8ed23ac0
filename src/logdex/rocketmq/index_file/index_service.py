"""IndexService: the IndexFiles of a store, look-ups by key through all of them, and adding keys
message by message.

Source: ``docs/formats/index-file.md``; IndexService.queryOffset, buildIndex,
DefaultMessageStore.queryMessage.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.errors import GeometryError, StoreError, UsageError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.open_files import OpenFiles
from logdex.io.path_look import StrPath, path_text
from logdex.primitives.shown import counted, repr_of
from logdex.rocketmq.index_file.derive import index_file_name
from logdex.rocketmq.index_file.index_file import OWN_DESCRIPTORS_MAX, IndexFile
from logdex.rocketmq.index_file.index_keys import Keys, hash_keys, key_hash_of, key_prefix, message_key_hashes
from logdex.rocketmq.index_file.index_paths import is_unfilled, list_index_files
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import UTC_ZONE

_FOREVER_MS = (1 << 63) - 1


class QueryOffsetResult(NamedTuple):
    """The result of a query by key: physical offsets in the CommitLog, from the newest file to the
    oldest, and newest entry first within a file."""

    phy_offsets: list[int]
    index_last_update_timestamp: int
    """End timestamp (ms) of the newest IndexFile; 0 if there is no file."""
    index_last_update_phyoffset: int
    """End physical offset (bytes) of the newest IndexFile; 0 if there is no file."""


class QueryOffsetsResult(NamedTuple):
    """The results of many queries: those of key i are `phy_offsets[row_ends[i - 1] : row_ends[i]]`
    (int64)."""

    phy_offsets: npt.NDArray[np.int64]
    row_ends: npt.NDArray[np.int64]
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


class IndexService:
    """The IndexFiles of a directory, in the order of their names. A missing directory has no files.

    The files are opened for reading by default; `build_index` needs `writable`. Threads may share
    the object for reading. While one thread writes, no other may use it. Raises `GeometryError` if
    no file has the size that the config gives, or, if `writable`, if any file has another size.
    New files are named by times in `time_zone`, by default that of the files that are there, else
    the machine's (see `resolve_name_zone`).
    """

    def __init__(
        self,
        directory: StrPath,
        config: StoreConfig,
        *,
        env: Env = DEFAULT_ENV,
        writable: bool = False,
        time_zone: str | None = None,
        own_descriptors_max: int = OWN_DESCRIPTORS_MAX,
    ) -> None:
        """`own_descriptors_max` files keep a descriptor each, the others share some."""
        self.directory = directory = path_text(directory)
        self.config = config
        self.files: list[IndexFile] = []
        self._env = env
        self._closed = False
        self._writable = writable
        self._open_files = OpenFiles(env)
        self._own_descriptors_max = own_descriptors_max
        self._zone = resolve_name_zone(directory, time_zone, env=env).zone if writable else UTC_ZONE
        if writable:
            env.make_dirs(directory)
        self.unusable: list[StoreError] = []
        """Why files are ignored: their size is not the one that the config gives, while other files
        have it. Whoever knows of other files that are lost adds them."""
        try:
            self._take_in()
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return repr_of(self, repr(self.directory), counted(len(self.files), "file"), is_closed=self._closed)

    def _take_in(self) -> None:
        """Opens the files that are not open yet. Errors of files with another size are kept in
        `unusable`."""
        known = {file.path for file in self.files}
        self.unusable = []
        for path in list_index_files(self.directory, self._env):
            if path in known:
                continue
            lent = None if len(self.files) < self._own_descriptors_max else self._open_files
            try:
                file = IndexFile(path, self.config, env=self._env, writable=self._writable, open_files=lent)
                self.files.append(file)
            except GeometryError as error:
                if not is_unfilled(path, self._env):
                    self.unusable.append(error)
            except VanishedError:  # a broker has removed it since the directory was listed
                if self._writable:
                    raise
        if self.unusable and (self._writable or not self.files):
            raise self.unusable[0]
        self.files.sort(key=lambda file: file.path)

    # -- looking up -------------------------------------------------------------------------------
    def query_offset(
        self,
        topic: bytes | str,
        key: bytes | str,
        max_num: int = limits.QUERY_MAX_NUM,
        begin_ms: int = 0,
        end_ms: int = _FOREVER_MS,
        index_type: str | None = None,
        *,
        cap: int | None = limits.QUERY_MAX_NUM,
    ) -> QueryOffsetResult:
        """Returns the physical offsets that the engine's queryOffset returns for a key, from the
        newest file to the oldest.

        Returns at most `max_num` offsets, and at most `cap` (the engine's maxMsgsNumBatch) unless
        it is None. Only hashes are compared, so messages with other keys may be among them.
        `index_type` ``T`` searches for a tag (from 5.4.0 on). A file that a broker has removed
        meanwhile is passed over.
        """
        key_hash = key_hash_of(topic, key, index_type)
        max_num = max_num if cap is None else min(max_num, cap)
        found: list[int] = []
        for file in reversed(self.files):
            if file.is_time_matched(begin_ms, end_ms):
                with suppress(VanishedError):
                    found += file.select_phy_offset(key_hash, max_num - len(found), begin_ms, end_ms)
            if file.header.begin_timestamp_ms < begin_ms or len(found) >= max_num:
                break
        return QueryOffsetResult(found, *self._last_update())

    def query_offsets_many(
        self,
        topic: bytes | str,
        keys: Keys,
        max_num: int = limits.QUERY_MAX_NUM,
        begin_ms: int = 0,
        end_ms: int = _FOREVER_MS,
        index_type: str | None = None,
        *,
        cap: int | None = limits.QUERY_MAX_NUM,
    ) -> QueryOffsetsResult:
        """Like `query_offset`, for many keys of one topic at once. Hashes (int32) must be those of
        `topic#key`."""
        hashes = hash_keys(keys, key_prefix(topic, index_type))
        room = np.full(len(hashes), max_num if cap is None else min(max_num, cap), np.int64)
        parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        rows = np.flatnonzero(room > 0)
        for file in reversed(self.files):
            if not len(rows):
                break
            if file.is_time_matched(begin_ms, end_ms):
                with suppress(VanishedError):
                    selection = file.select_many(hashes[rows], room[rows], begin_ms, end_ms)
                    counts = np.diff(selection.row_ends, prepend=0)
                    parts.append((rows, counts, selection.phy_offsets))
                    room[rows] -= counts
                    rows = rows[room[rows] > 0]
            if file.header.begin_timestamp_ms < begin_ms:
                break
        return QueryOffsetsResult(*_joined(len(hashes), parts), *self._last_update())

    def _last_update(self) -> tuple[int, int]:
        if not self.files:
            return 0, 0
        header = self.files[-1].header
        return header.end_timestamp_ms, header.end_phy_offset

    def reload(self) -> None:
        """Reads the headers again, opens new files and closes removed ones, for a directory that a
        broker is still writing."""
        there = set(list_index_files(self.directory, self._env))
        for file in [*self.files]:
            try:
                if file.path in there:
                    file.reload()
                    continue
            except VanishedError:
                pass
            file.close()
            self.files.remove(file)
        self._take_in()

    # -- putting ----------------------------------------------------------------------------------
    def build_index(self, message: StoredMessage) -> None:
        """Adds the keys of a message one by one, as the engine does, and rolls to a new file if one
        is full. The plain twin of `IndexFilesWriter`.

        A new file is named by the store time of the message for which it is created, in the
        service's time zone. Raises
        `UsageError` unless writable.
        """
        file = self._last_file(message.store_timestamp_ms)
        if message.physical_offset < file.header.end_phy_offset:
            return
        for key_hash in message_key_hashes(message, self.config.dialect):
            if not file.put_key(key_hash, message.physical_offset, message.store_timestamp_ms):
                file = self._last_file(message.store_timestamp_ms)
                file.put_key(key_hash, message.physical_offset, message.store_timestamp_ms)

    def _last_file(self, store_timestamp_ms: int) -> IndexFile:
        """Returns the newest file, or a new one if the newest is full."""
        if not self._writable:
            raise UsageError(f"{self.directory}: opened for reading", hint="open it with writable=True")
        last = self.files[-1] if self.files else None
        if last is not None and not last.is_write_full:
            return last
        name = index_file_name(store_timestamp_ms, last.path.rpartition("/")[2] if last else None, self._zone)
        path = f"{self.directory}/{name}"
        self.files.append(IndexFile(path, self.config, env=self._env, writable=True, previous=self._last_update()))
        return self.files[-1]

    def close(self) -> None:
        """Closes all files."""
        self._closed = True
        for file in self.files:
            file.close()
        self.files = []

    def __enter__(self) -> IndexService:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _joined(
    size: int, parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Concatenates the results per row from several files. Returns flat offsets and row ends."""
    totals = np.zeros(size, np.int64)
    for rows, counts, _ in parts:
        totals[rows] += counts
    row_ends = np.cumsum(totals, dtype=np.int64)
    flat = np.empty(int(row_ends[-1]) if size else 0, np.int64)
    place = row_ends - totals
    for rows, counts, offsets in parts:
        within = np.arange(len(offsets), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        flat[np.repeat(place[rows], counts) + within] = offsets
        place[rows] += counts
    return flat, row_ends
