"""The IndexFiles of an open store: which are kept at opening, where they go on, and how they roll.

A full file is on disk, with its name, before the next one is created, and the checkpoint says so.
After an unclean end a file is kept if it is full, has a successor, and the checkpoint vouches for
it; the others are derived again. Source: IndexService.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from logdex.errors import StorageError, StoreError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.derive import IndexWindow, index_file_name
from logdex.rocketmq.index_file.index_file import OWN_DESCRIPTORS_MAX, IndexFile
from logdex.rocketmq.index_file.index_paths import list_index_files, no_index_files
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.index_file.writer import IndexFilesWriter, IndexTarget
from logdex.rocketmq.message_store.derived.checkpoint import LiveCheckpoint
from logdex.rocketmq.read.keys.index_coverage import KeylessParts, find_missing
from logdex.rocketmq.read.results import OffsetRange
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import TimeZone

_ENTRIES_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class IndexStart:
    """Where the IndexFiles go on: the message at a physical offset, of which `keys_done` keys are
    in them already. `kept` and `doomed` are paths of files."""

    offset: int
    keys_done: int
    kept: tuple[str, ...]
    doomed: tuple[str, ...]
    keyless: tuple[OffsetRange, ...] = ()
    """The parts of the log that are known to have no message with keys."""


def find_start(
    paths: StorePaths,
    log: CommitLog,
    end_offset: int,
    config: StoreConfig,
    checkpoint_ms: int | None,
    env: Env,
    *,
    keyless: Iterable[OffsetRange] = (),
    indexed: Iterable[OffsetRange] = (),
) -> IndexStart:
    """Decides which IndexFiles are kept and where the next key belongs. `checkpoint_ms` is the
    checkpoint's time for IndexFiles after an unclean end, None after a clean one. In the `keyless`
    parts of the log no message has keys, as is known already, and the `indexed` parts were covered
    each by one IndexFile.

    After a clean end the files are held against the log: where they miss messages, they are derived
    again from there on. Raises `UnusableFileError` if something else has the name of an IndexFile.
    """
    for unusable in no_index_files(paths.index, env):
        raise unusable
    found = list_index_files(paths.index, env)
    files: list[IndexFile] = []
    open_files = OpenFiles(env)
    try:
        for place, path in enumerate(found):
            try:
                file = IndexFile(path, config, env=env, open_files=None if place < OWN_DESCRIPTORS_MAX else open_files)
            except StorageError:
                raise  # the file may be sound
            except StoreError:
                break
            is_last = place == len(found) - 1
            if checkpoint_ms is not None and (
                is_last or not file.is_write_full or file.header.end_timestamp_ms > checkpoint_ms
            ):
                file.close()
                break
            files.append(file)
        parts = KeylessParts(keyless)
        missing = partial(find_missing, log=log, valid_end=end_offset, config=config, env=env, keyless=parts)
        start = _after(files, log, end_offset, missing, indexed, is_clean=checkpoint_ms is None)
        kept = tuple(file.path for file in files[: start[2]])
        every = list_index_files(paths.index, env, empty=True)
        doomed = tuple(path for path in every if path not in kept)
        return IndexStart(start[0], start[1], kept, doomed, tuple(parts.parts))
    finally:
        for file in files:
            file.close()


def _after(
    files: list[IndexFile],
    log: CommitLog,
    end_offset: int,
    find: Callable[[list[IndexFile]], tuple[OffsetRange, ...]],
    indexed: Iterable[OffsetRange],
    *,
    is_clean: bool,
) -> tuple[int, int, int]:
    """(offset, keys of the message there that are done, number of files kept)."""
    _drop_from(files, end_offset)  # they have keys of messages that the log no longer has
    missing = [begin for begin, _ in find(files)]
    missing += [max(begin, log.min_offset) for begin, end in _lost(files, indexed) if end >= log.min_offset]
    if not missing and is_clean:
        return end_offset, 0, len(files)
    if missing:
        _drop_from(files, min(missing))
    while files and not files[-1].header.entry_count:
        files.pop().close()  # its header says that all messages up to some place are indexed
    filled = [file for file in files if file.header.entry_count]
    if not filled:
        return log.min_offset, 0, len(files)
    last = filled[-1].header
    if last.end_phy_offset < log.min_offset:
        return log.min_offset, 0, len(files)
    return last.end_phy_offset, _keys_of(filled, last.end_phy_offset), len(files)


def _lost(files: list[IndexFile], indexed: Iterable[OffsetRange]) -> Iterator[OffsetRange]:
    """Yields the ranges of files that are gone. Each file stands for one range, because the entries
    of one message may be in two files."""
    found = [(file.header.begin_phy_offset, file.header.end_phy_offset) for file in files]
    for begin, end in indexed:
        place = next((at for at, (first, last) in enumerate(found) if first <= begin and end <= last), None)
        if place is None:
            yield begin, end
        else:
            del found[place]


def _drop_from(files: list[IndexFile], phy_offset: int) -> None:
    """Drops the files from the first one on that has entries for messages from an offset on."""
    while any(file.header.entry_count and file.header.end_phy_offset >= phy_offset for file in files):
        files.pop().close()


def _keys_of(files: list[IndexFile], phy_offset: int) -> int:
    """How many keys of the last message, which is at `phy_offset`, are in the files."""
    count = 0
    for file in reversed(files):
        at = file.header.index_count
        while at > 1:
            start = max(at - _ENTRIES_AT_ONCE, 1)
            others = np.flatnonzero(file.entries(start, at - start).phy_offset != phy_offset)
            if len(others):
                return count + at - start - 1 - int(others[-1])
            count += at - start
            at = start
    return count


class LiveIndex:
    """Appends the keys of messages to the store's IndexFiles. For one thread at a time."""

    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig,
        checkpoint: LiveCheckpoint,
        start: IndexStart,
        env: Env,
        *,
        zone: TimeZone | None = None,
    ) -> None:
        """New files are named by times in `zone`, by default as those that are there."""
        self._paths, self._config, self._checkpoint, self._env = paths, config, checkpoint, env
        self._known = 0
        self.keyless = start.keyless
        self.paths = list(start.kept)
        """The files that the store has, in their order."""
        self.changes = 0
        """How often a file was created or removed."""
        self._zone = zone or resolve_name_zone(paths.index, None, env=env).zone
        for path in start.doomed:
            env.remove(path)
        if start.doomed:
            env.sync_dir(paths.index)
        self._last_name = posixpath.basename(start.kept[-1]) if start.kept else None
        self._writer = IndexFilesWriter(config, self._next_file)
        if start.kept:
            self._resume(start.kept[-1])

    def _resume(self, path: str) -> None:
        """Goes on with the newest file, or after it if it is full."""
        with IndexFile(path, self._config, env=self._env) as file:
            header = file.header
        if header.index_count >= self._config.max_index_num:
            self._writer = IndexFilesWriter(
                self._config, self._next_file, previous=(header.end_timestamp_ms, header.end_phy_offset)
            )
            return
        target = IndexTarget(path, self._config, env=self._env, sync=True, exclusive=False, mapped=True)
        self._writer.resume(target, header)

    def _next_file(self, first_store_timestamp_ms: int) -> IndexTarget:
        self._env.sync_dir(self._paths.index)
        self._last_name = index_file_name(first_store_timestamp_ms, self._last_name, self._zone)
        path = f"{self._paths.index}/{self._last_name}"
        self.changes += 1
        target = IndexTarget(path, self._config, env=self._env, sync=True, mapped=True)
        self.paths.append(path)
        return target

    def forget(self, path: str) -> None:
        """Notes that a file is removed."""
        self.paths = [each for each in self.paths if each != path]
        self.changes += 1

    def put(self, window: IndexWindow, first_message: int = 0, first_key: int = 0) -> None:
        """Adds the keys of a window's messages from (`first_message`, `first_key`) on."""
        self._writer.put(window, first_message, first_key)

    def rolled_timestamp_ms(self) -> int | None:
        """The end time of the newest file that became full since the last call, None if none
        did."""
        headers = self._writer.headers
        if len(headers) == self._known:
            return None
        self._known = len(headers)
        return headers[-1].end_timestamp_ms

    def sync(self) -> None:
        """Writes the newest file to disk."""
        target = self._writer.current
        if target is not None:
            target.sync()

    @property
    def is_there(self) -> bool:
        """Whether the newest file still has its name: a broker that is started on an open store
        removes it before it finds that the store is locked."""
        return self._writer.current is None or self._writer.current.is_there

    def finish(self) -> None:
        """Completes and closes the files, which are on disk then."""
        self._writer.finish()
        self._env.sync_dir(self._paths.index)

    def close_files(self) -> None:
        """Closes the files without completing them."""
        if self._writer.current is not None:
            self._writer.current.abandon()
