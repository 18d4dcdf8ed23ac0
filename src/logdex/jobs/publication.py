"""Publishes staged names, and undoes a publication that was broken off.

No name of the output is missing at any time: a file is replaced by a rename after what it replaces
was given its dated name as a second one, and a folder is exchanged with its successor in one step.
(Where the file system can do neither, two renames do it.) What is at the names tells how far a
publication came, so that nothing is noted while it runs, and the same function undoes it in a run
that failed and after a kill.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from zlib import crc32

from logdex.errors import StorageError
from logdex.io.env import Env
from logdex.io.name_changes import FileStamp
from logdex.jobs.journal import ASIDE, BACK, LOCK_NAME, PUT, Journal, Step

FILE, DIRECTORY = "file", "directory"
_EMPTY = "empty"
"""The folder below the staging folder with files that are empty."""
_DATED = re.compile(r".+\.\d{8}T\d{6}Z(\.\d+)?")


def is_dated(name: str) -> bool:
    """Whether a name is one under which a publication keeps what it replaced."""
    return _DATED.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Names:
    """What to publish, as names below the output. A name may contain folders that exist there.

    `names` are replaced by the staged ones, and `stale` are set aside. `first` are set aside before
    anything else, for marks that would vouch for what is half-published. `emptied` are the files
    among `names` that others depend on: what they say must be of no other file meanwhile, so each
    is replaced by an empty file first, and by the staged one when the other `names` are on disk.
    `later` are published then, too, and `last` when everything else is on disk; a name of `first`
    that is not among these then gets its old content back.
    """

    names: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


class Publication:
    """The names of one output and their staged successors: published by `publish`, brought back by
    `undo`. Paths in `journal` are relative to `directory`. For one thread."""

    def __init__(self, directory: str, journal: Journal, *, sync: bool, env: Env) -> None:
        self.journal = journal
        self._output = posixpath.normpath(posixpath.join(directory, journal.output))
        self._staging = posixpath.normpath(posixpath.join(directory, journal.staging))
        self._journal_path = f"{directory}/{LOCK_NAME}"
        self._sync = sync
        self._env = env

    def plan(self, wanted: Names) -> list[Step]:
        """Returns the steps that publish the staged names, in their order."""
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        first = [self._aside(name, stamp) for name in wanted.first if self._stamp(name) is not None]
        gone = {step.name for step in first}
        emptied = {name: self._empty(name, stamp) for name in wanted.emptied if self._has_content(name)}
        steps = [self._put(name, stamp) for name in wanted.names if name not in emptied]
        steps += [self._aside(name, stamp) for name in wanted.stale if self._stamp(name) is not None]
        later = [self._fill(step) for step in emptied.values()]
        later += [self._put(name, stamp) for name in wanted.later]
        last = [self._put(name, stamp, is_gone=name in gone) for name in wanted.last]
        last += [replace(step, kind=BACK) for step in first if step.name not in wanted.last]
        phases = (first, emptied.values(), steps, later, last)
        return [replace(step, phase=phase) for phase, found in enumerate(phases) for step in found]

    def stage_empty(self, names: Iterable[str]) -> None:
        """Writes the empty files that take the place of `names` meanwhile below the staging
        folder."""
        for name in names:
            path = f"{self._staging}/{_EMPTY}/{name}"
            self._env.make_dirs(posixpath.dirname(path))
            with self._env.open_write(path) as file:
                if self._sync:
                    file.sync()

    def _has_content(self, name: str) -> bool:
        found = self._stamp(name)
        return found is not None and found.kind == FILE and found.size_bytes > 0

    def _empty(self, name: str, stamp: str) -> Step:
        """The step by which an empty file takes the place of a file."""
        staged = f"{_EMPTY}/{name}"
        new = self._env.stamp(f"{self._staging}/{staged}")
        return Step(PUT, name, self._free_name(f"{name}.{stamp}"), self._stamp(name), new, staged=staged)

    def _fill(self, emptied: Step) -> Step:
        """The step by which the staged file takes the place of the empty one, which is kept in the
        staging folder so that this can be undone."""
        kept = posixpath.relpath(f"{self._staging}/{emptied.staged}.kept", self._output)
        return Step(PUT, emptied.name, kept, emptied.new, self._env.stamp(f"{self._staging}/{emptied.name}"))

    def _aside(self, name: str, stamp: str) -> Step:
        path = self._path(name)
        return Step(ASIDE, name, self._free_name(f"{name}.{stamp}"), self._stamp(name), old_files=self._files(path))

    def _put(self, name: str, stamp: str, *, is_gone: bool = False) -> Step:
        old = None if is_gone else self._stamp(name)
        kept = None if old is None else self._free_name(f"{name}.{stamp}")
        old_files = None if old is None else self._files(self._path(name))
        staged = f"{self._staging}/{name}"
        return Step(PUT, name, kept, old, self._env.stamp(staged), old_files, self._files(staged))

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while self._stamp(name) is not None:
            name, number = f"{wanted}.{number}", number + 1
        return name

    @property
    def kept(self) -> dict[str, str]:
        """Per replaced name, the path under which its old content is kept."""
        back = {step.name for step in self.journal.steps if step.kind == BACK}
        kept: dict[str, str] = {}
        for step in self.journal.steps:
            if step.kept is not None and step.name not in back:
                kept.setdefault(step.name, self._path(step.kept))  # the first has what was there before
        return kept

    # -- forwards ---------------------------------------------------------------------------------
    def publish(self) -> None:
        """Carries out the steps of the journal, which is on disk."""
        for _, found in groupby(self.journal.steps, key=attrgetter("phase")):
            steps = [*found]
            linked = [step for step in steps if self._link(step)]
            self._sync_folders(_kept(step) for step in linked)
            for step in steps:
                if step.kind == PUT:
                    self._replace(step)
                elif step.kind == ASIDE:
                    self._rename(step.name, _kept(step))
                else:
                    self._rename(_kept(step), step.name)
            self._sync_folders(name for step in steps for name in (step.name, step.kept) if name is not None)

    def _link(self, step: Step) -> bool:
        """Gives a file that is to be replaced its dated name as a second one. Returns False where
        that cannot be."""
        if step.kind != PUT or step.old is None or step.old.kind != FILE or step.new is None or step.new.kind != FILE:
            return False
        return self._env.link(self._path(step.name), self._path(_kept(step)))

    def _replace(self, step: Step) -> None:
        staged, target = self._staged(step), self._path(step.name)
        if step.old is None or self._stamp(_kept(step)) is not None:
            self._env.rename(staged, target)
        elif self._env.exchange(staged, target):
            self._env.rename(staged, self._path(_kept(step)))
        else:
            self._env.rename(target, self._path(_kept(step)))
            self._env.rename(staged, target)

    # -- backwards --------------------------------------------------------------------------------
    def changed_since(self) -> list[str]:
        """Returns the names whose content is neither what the publication replaced nor what it
        published: somebody has written there since."""
        known: dict[str, list[tuple[FileStamp | None, int | None]]] = {}
        for step in self.journal.steps:
            known.setdefault(step.name, []).extend(((step.old, step.old_files), (step.new, step.new_files)))
        return [name for name, states in known.items() if self._is_changed(name, states)]

    def _is_changed(self, name: str, states: list[tuple[FileStamp | None, int | None]]) -> bool:
        there = self._stamp(name)
        if there is None:
            return False
        files = self._files(self._path(name))
        return not any(_matches(there, stamp) and files == known for stamp, known in states)

    def undo(self) -> list[str]:
        """Gives every name the content that it had before the publication, whatever steps were
        carried out. Returns the marks that stay under their dated names, because somebody has
        written since to the files that they vouch for."""
        outdated = self._outdated_marks()
        for step in reversed(self.journal.steps):
            if step.kind == PUT:
                self._undo_put(step)
            elif step.kind == BACK or step.name not in outdated:
                self._undo_aside(step)
        self._sync_folders(step.name for step in self.journal.steps)
        return [self._path(name) for name in outdated]

    def _outdated_marks(self) -> list[str]:
        """Returns the marks that were set aside, if any file in their directory was written after
        the journal."""
        again = {step.name for step in self.journal.steps if step.kind != ASIDE}
        steps = [step for step in self.journal.steps if step.kind == ASIDE and step.name in again]
        gone = [step for step in steps if self._stamp(step.name) is None and self._stamp(_kept(step)) is not None]
        written = self._env.stamp(self._journal_path)
        if written is None:
            return []
        return [
            step.name
            for step in gone
            if self._is_written_since(posixpath.dirname(self._path(step.name)), written.modified_ns)
        ]

    def _is_written_since(self, folder: str, time_ns: int) -> bool:
        """Whether a file in a folder or below it was written after that time, or cannot be seen."""
        folders = [folder]
        while folders:
            folder = folders.pop()
            try:
                for name in self._env.list_dir(folder):
                    path = f"{folder}/{name}"
                    found = self._env.stamp(path)
                    if found is not None and found.kind == DIRECTORY:
                        folders.append(path)
                    elif found is not None and found.modified_ns > time_ns and path != self._journal_path:
                        return True
            except StorageError:
                return True
        return False

    def _undo_aside(self, step: Step) -> None:
        """Undoing the last step of a mark takes it away again, while the others are undone."""
        there, kept = self._stamp(step.name), self._stamp(_kept(step))
        if step.kind == BACK and kept is None and _matches(there, step.old):
            self._rename(step.name, _kept(step))
        elif step.kind == ASIDE and there is None and kept is not None:
            self._rename(_kept(step), step.name)

    def _undo_put(self, step: Step) -> None:
        target, staged = self._path(step.name), self._staged(step)
        there = self._env.stamp(target)
        is_new = _is_first(there, step.new, step.old)
        is_old = _is_first(there, step.old, step.new) and not (is_new and self._env.stamp(staged) is None)
        if is_new and not is_old:
            self._take_back(step, target, staged)
        elif step.kept is not None and there is None:
            if _matches(self._stamp(step.kept), step.old):
                self._rename(step.kept, step.name)
        elif step.kept is not None and is_old and there is not None:
            if there.kind == FILE:
                self._env.remove(self._path(step.kept))  # the second name of what was not replaced
            elif _matches(self._stamp(step.kept), step.new):  # undoing it was broken off
                self._env.rename(self._path(step.kept), staged)

    def _take_back(self, step: Step, target: str, staged: str) -> None:
        """Undoes a replacement. What was published goes back below the staging folder."""
        if step.kept is not None and _matches(self._env.stamp(staged), step.old):
            self._env.exchange(staged, target)
        elif step.kept is None or not _matches(self._stamp(step.kept), step.old):
            self._make_staged(posixpath.dirname(staged))
            self._env.rename(target, staged)
        elif step.old is not None and step.new is not None and step.old.kind == step.new.kind == FILE:
            self._rename(step.kept, step.name)
        else:
            kept = self._path(step.kept)
            self._make_staged(posixpath.dirname(staged))
            if self._env.exchange(kept, target):
                self._env.rename(kept, staged)
            else:
                self._env.rename(target, staged)
                self._env.rename(kept, target)

    def _make_staged(self, directory: str) -> None:
        """Creates a directory below the staging folder, which may be gone."""
        for each in (self._staging, directory):
            self._env.make_dirs(each)

    def leave(self) -> None:
        """Lets every name be as it is, after a change by somebody else. A second name of a file
        that was not replaced is removed."""
        for step in self.journal.steps:
            if step.kind == PUT and step.kept is not None and step.old is not None and step.old.kind == FILE:
                there, kept = self._stamp(step.name), self._stamp(step.kept)
                if there is not None and kept is not None and there.inode == kept.inode:
                    self._env.remove(self._path(step.kept))

    # -- names ------------------------------------------------------------------------------------
    def _rename(self, source: str, target: str) -> None:
        self._env.rename(self._path(source), self._path(target))

    def _stamp(self, name: str) -> FileStamp | None:
        return self._env.stamp(self._path(name))

    def _files(self, path: str) -> int | None:
        """Identifies the state of all files below a folder, by their names, sizes and times. None
        for what is no folder."""
        found = self._env.stamp(path)
        if found is None or found.kind != DIRECTORY:
            return None
        state, folders = 0, [path]
        while folders:
            folder = folders.pop()
            for name in self._env.list_dir(folder):
                below = f"{folder}/{name}"
                each = self._env.stamp(below)
                is_folder = each is not None and each.kind == DIRECTORY
                if is_folder:
                    folders.append(below)
                known = None if is_folder or each is None else (each.size_bytes, each.modified_ns)
                told = f"{below.removeprefix(path)} {known}\n"
                state = crc32(told.encode("utf-8", "surrogateescape"), state)
        return state

    def _path(self, name: str) -> str:
        return posixpath.normpath(f"{self._output}/{name}")

    def _staged(self, step: Step) -> str:
        return f"{self._staging}/{step.staged or step.name}"

    def _sync_folders(self, names: Iterable[str]) -> None:
        if self._sync:
            for folder in dict.fromkeys(posixpath.dirname(self._path(name)) for name in names):
                self._env.sync_dir(folder)


def _kept(step: Step) -> str:
    assert step.kept is not None
    return step.kept


def _matches(found: FileStamp | None, known: FileStamp | None) -> bool:
    """Whether that is the file or directory that is known. A copy of the output, whose inodes are
    others, counts too if it kept the modification times."""
    if found is None or known is None or found.kind != known.kind:
        return False
    return _is_same(found, known) or (found.kind == DIRECTORY and found.inode == known.inode)


def _is_same(found: FileStamp, known: FileStamp) -> bool:
    return (found.size_bytes, found.modified_ns) == (known.size_bytes, known.modified_ns)


def _is_first(found: FileStamp | None, one: FileStamp | None, other: FileStamp | None) -> bool:
    """Whether it is the `one`, where it may be the `other` too: their times decide before their
    inodes, which another file may have later."""
    if found is None or not _matches(found, one):
        return False
    return one is not None and (_is_same(found, one) or other is None or not _is_same(found, other))
