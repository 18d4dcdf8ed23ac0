"""The files that a dispatch writes: those of a rebuild with key indexes, partition by partition.

A partition's new files are renamed into place one by one, and its journal is written behind them.
So after a kill some files may be newer than the journal says; then they are derived once more.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from dataclasses import replace

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.jobs.dispatching import STAGE_PREFIX, lock_output
from logdex.jobs.journal import LOCK_NAME
from logdex.kafka.dispatch.journal import JOURNAL_NAME, PartitionJournal, stage_name
from logdex.kafka.files.file_names import (
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    parse_offset_file,
    parse_partition_dir,
)
from logdex.kafka.rebuild.segment import SegmentDone
from logdex.kafka.rebuild.state import StateDone

HOME = ".logdex-dispatch"
"""The folder of the journals and stage files, by partition."""
_SUFFIXES = frozenset((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, KEY_INDEX_SUFFIX, SNAPSHOT_SUFFIX))


class DispatchOutput:
    """The derived files below `directory`, and the journals of their partitions. A partition is
    named by its folder below the output, "" for the output itself. For one thread.

    Raises `LogInUseError` if another dispatch writes there, and `UsageError` if something else did.
    """

    def __init__(self, directory: str, env: Env) -> None:
        self._directory = directory
        self._env = env
        self._home = f"{directory}/{HOME}"
        self._lock = lock_output(directory, env)
        try:
            self._require_own()
            self.journals = self._read_journals()
        except BaseException:
            self._lock.release()
            raise

    def _require_own(self) -> None:
        names = [name for name in self._env.list_dir(self._directory) if not name.startswith(STAGE_PREFIX)]
        if not self._env.is_dir(self._home) and set(names) - {LOCK_NAME}:
            raise UsageError(
                f"{self._directory} has files that no dispatch of Kafka logs wrote",
                hint="give an output that is empty, or new",
            )
        self._make_dir(self._home)  # its name is on disk before there is anything else

    def _read_journals(self) -> dict[str, PartitionJournal]:
        """Returns the journals by partition. Segments of which a file is missing are left out, and
        files that no journal has are noted."""
        folders = ["", *(name for name in self._env.list_dir(self._home) if parse_partition_dir(name) is not None)]
        found = {}
        for folder in folders:
            home = self._home_of(folder)
            journal = PartitionJournal.read(home, self._env)
            if journal is not None or folder:
                journal, names = journal or PartitionJournal(), self._list(self._path(folder))
                is_behind = any(_is_derived(name) and name not in journal.names for name in names)
                journal = journal.without_missing({*names, *self._list(home)})
                found[folder] = replace(journal, is_behind=is_behind)
        return found

    def _list(self, folder: str) -> Collection[str]:
        return self._env.list_dir(folder) if self._env.is_dir(folder) else ()

    def _path(self, folder: str) -> str:
        return f"{self._directory}/{folder}".rstrip("/")

    def _home_of(self, folder: str) -> str:
        return f"{self._home}/{folder}".rstrip("/")

    def staged_path(self, folder: str, base_offset: int) -> str:
        """Returns where the stage file of a segment is kept."""
        return f"{self._home_of(folder)}/{stage_name(base_offset)}"

    # -- publishing -------------------------------------------------------------------------------
    def publish(self, folder: str, journal: PartitionJournal, new: Iterable[SegmentDone], state: StateDone) -> None:
        """Moves the new files of a partition into place, removes those that the journal does not
        have, and writes the journal. All of it is on disk then."""
        env, path, home = self._env, self._path(folder), self._home_of(folder)
        if not self.journals.get(folder, PartitionJournal()).segments:
            self._make_dir(home)  # it tells of the partition before there is a file of it
            self._make_dir(path)
        for done in new:
            for name in done.names:
                env.rename(f"{done.directory}/{name}", f"{path}/{name}")
            if done.staged is not None:
                with env.open_write(done.staged.path) as file:
                    file.sync()
                env.rename(done.staged.path, self.staged_path(folder, done.source.base_offset))
        env.sync_dir(path)  # what depends on a new segment is never there without a file of the segment
        for name in state.names:
            env.rename(f"{state.directory}/{name}", f"{path}/{name}")
        self._remove(folder, journal)
        for each in (path, home):
            env.sync_dir(each)
        journal.write(home, env)
        self.journals[folder] = journal

    def _make_dir(self, path: str) -> None:
        """Creates a directory in another one, if it is missing. Its name is on disk then, also if a
        killed run has created it."""
        if not self._env.is_dir(path):
            self._env.make_dirs(path)
        self._env.sync_dir(posixpath.dirname(path))

    def remove(self, folder: str) -> None:
        """Removes the files of a partition that is deleted, and then its journal."""
        env, path, home = self._env, self._path(folder), self._home_of(folder)
        self._remove(folder, PartitionJournal())
        if env.is_dir(path):
            env.sync_dir(path)
            if folder and not env.list_dir(path):
                env.remove_tree(path)
                env.sync_dir(self._directory)
        env.remove(f"{home}/{JOURNAL_NAME}")
        if folder:
            env.remove_tree(home)
        del self.journals[folder]

    def _remove(self, folder: str, journal: PartitionJournal) -> None:
        """Removes the derived files and stage files that a journal does not have. Nothing else is
        touched."""
        path, home = self._path(folder), self._home_of(folder)
        for name in self._list(path):
            if _is_derived(name) and name not in journal.names:
                self._env.remove(f"{path}/{name}")
        for name in self._list(home):
            if name.endswith(".stage") and name not in journal.stages:
                self._env.remove(f"{home}/{name}")

    def close(self) -> None:
        """Releases the lock."""
        self._lock.release()


def _is_derived(name: str) -> bool:
    named = parse_offset_file(name)
    return name == LEADER_EPOCH_CHECKPOINT or (named is not None and named[1] in _SUFFIXES)
