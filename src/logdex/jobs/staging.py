"""Writes the new contents of a directory to a staging folder and publishes them at the end. A kill
at any time is safe.

Everything is written below a folder ``.logdex-staging-…`` and synced. Then the lock file, which
keeps two runs on one output apart, gets a journal of the names that are about to change, and the
names are moved into place (`jobs.publication`). What had a name before is kept under a name with a
timestamp. After an error or a signal all names are moved back, so that the output is as before. If
the run is killed, the next one that publishes in the same directory does it, and removes what is
left.
"""

from __future__ import annotations

import errno
import posixpath
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType

from logdex.errors import StorageError, UsageError
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.io.process_lock import ProcessLock, take_lock
from logdex.jobs.journal import LOCK_NAME, Journal, read_journal, unfinished_of, write_journal
from logdex.jobs.publication import Names, Publication

LEFT = "logdex-unfinished"
_WAITS_S = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
_CHANGED_MEANWHILE = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT)


def remove_tree_in_use(path: str, env: Env) -> None:
    """Removes a folder in which processes that are about to end may still create files, such as the
    workers of a killed run. Tries again for some seconds if the folder changed meanwhile."""
    for wait_s in _WAITS_S:
        try:
            env.remove_tree(path)
        except StorageError as error:
            if error.errno not in _CHANGED_MEANWHILE:
                raise
        else:
            return
        time.sleep(wait_s)
    env.remove_tree(path)


class OutputLock:
    """The lock on an output, whose file in `directory` is the journal too. `take` returns with what
    a killed run left there brought back, and `notes` say what that was. For one thread.

    Raises `UsageError` if another run holds the lock, and for a killed run in place unless
    `in_place`: a broker may run on what it published.
    """

    def __init__(self, directory: str, output: str, *, in_place: bool, sync: bool, env: Env) -> None:
        self.directory = directory
        self._in_place = in_place
        self.notes: list[str] = []
        self._sync = sync
        self._env = env
        path = f"{directory}/{LOCK_NAME}"
        found = env.stamp(path)
        if found is not None and found.kind == "other":
            env.remove(path)  # a symbolic link: a journal must not be written to where it leads
        lock = take_lock(path, env=env)
        if not isinstance(lock, ProcessLock):
            raise UsageError(f"{output}: another run is writing here", hint="wait for it, or choose another --output")
        self._lock = lock
        try:
            self._settle()
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Releases the lock, and removes its file unless there is a journal in it."""
        try:
            found = self._env.stamp(self._lock.path)
            if found is not None and found.size_bytes == 0:
                self._env.remove(self._lock.path)
        except StorageError:
            pass  # the first error is the one to raise
        finally:
            self._lock.release()

    def _settle(self) -> None:
        """Undoes what a killed run published, before anything of it is removed."""
        journal = read_journal(self.directory, self._env)
        if journal is None:
            return
        staging = posixpath.normpath(posixpath.join(self.directory, journal.staging))
        if journal.steps and journal.in_place and not self._in_place:
            raise unfinished_of(self.directory, journal, is_running=False).error
        if journal.steps:
            publication = Publication(self.directory, journal, sync=self._sync, env=self._env)
            changed = publication.changed_since()
            if changed:
                self._leave(journal, publication, changed, staging)
            else:
                marks = publication.undo()
                note = f"{journal.command} was killed while it published: what it had published was undone"
                if marks:
                    note += f", but files were written since, so {marks[0]} stays under its dated name"
                self.notes.append(note)
        if posixpath.basename(staging).startswith(STAGING_PREFIX):
            remove_tree_in_use(staging, self._env)
        self.clear()

    def _leave(self, journal: Journal, publication: Publication, changed: list[str], staging: str) -> None:
        publication.leave()
        note = f"{journal.command} was killed while it published, and {changed[0]} was changed since: "
        note += "all files stay as they are, with those that it replaced under dated names"
        if self._env.is_dir(staging):
            left = f"{posixpath.dirname(staging)}/{LEFT}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.{uuid.uuid4().hex[:4]}"
            self._env.rename(staging, left)
            note += f", and what it had not published is in {left}"
        self.notes.append(note)

    def write(self, journal: Journal, *, sync: bool) -> None:
        """Writes the journal. With `sync`, it is on disk when this returns."""
        write_journal(self.directory, journal, sync=sync, env=self._env)

    def clear(self) -> None:
        """Empties the journal."""
        with self._env.open_write(f"{self.directory}/{LOCK_NAME}") as file:
            file.truncate(0)
            if self._sync:
                file.sync()

    def remove(self) -> None:
        """Removes the lock file, and with it the journal: what was published stays."""
        self._env.remove(self._lock.path)
        if self._sync:
            self._env.sync_dir(self.directory)

    def release(self) -> None:
        """Releases the lock. Does nothing on a second call."""
        self._lock.release()


class Staging:
    """A staging folder for one output directory. A context manager that removes what was not
    published. For one thread.

    `home` is the directory of the staging folder, and `lock_home` that of the lock file, if they
    are not the output itself. `command` is what to type to run the job again, and `in_place`
    whether it reads what it publishes into. `notes` say what was left of a killed run. Raises
    `UsageError` if another run holds the lock.
    """

    def __init__(
        self,
        env: Env,
        output: str,
        *,
        sync: bool,
        command: str = "a run",
        in_place: bool = False,
        home: str | None = None,
        lock_home: str | None = None,
    ) -> None:
        self._env = env
        self._sync = sync
        self._is_unfinished = False
        self.output = output
        self._make_output()
        home, lock_home = home or output, lock_home or output
        self._lock = OutputLock(lock_home, output, in_place=in_place, sync=sync, env=env)
        self.notes = self._lock.notes
        self.directory = f"{home}/{STAGING_PREFIX}{uuid.uuid4().hex[:12]}"
        self._journal = Journal(
            command,
            posixpath.relpath(output, lock_home),
            posixpath.relpath(self.directory, lock_home),
            in_place=in_place,
        )
        try:
            for name in env.list_dir(home):
                if name.startswith(STAGING_PREFIX):
                    remove_tree_in_use(f"{home}/{name}", env)
            self._lock.write(self._journal, sync=False)
            env.make_dirs(self.directory)
        except BaseException as error:
            self._close_after(error)
            raise

    def _make_output(self) -> None:
        """Creates the output. Syncs the directories in which this creates names."""
        path, parents = self.output, []
        while not self._env.exists(path):
            path = posixpath.dirname(path) or "."
            parents.append(path)
        self._env.make_dirs(self.output)
        if self._sync:
            for path in parents:
                self._env.sync_dir(path)

    def publish(self, names: Names, *, settings: Mapping[str, dict[str, int]] | None = None) -> dict[str, str]:
        """Moves ``staging/NAME`` to ``output/NAME`` for each name. Returns, per replaced name, the
        path under which its old content is kept. `settings` are noted in the journal.

        If an error occurs, all moves are undone, as far as the system allows.
        """
        publication = Publication(self._lock.directory, self._journal, sync=self._sync, env=self._env)
        publication.stage_empty(names.emptied)
        if self._sync:
            self._sync_tree(self.directory)
            self._env.sync_dir(posixpath.dirname(self.directory))
        self._journal.settings = dict(settings or {})
        self._journal.steps = publication.plan(names)
        try:
            self._is_unfinished = True
            self._lock.write(self._journal, sync=self._sync)
            publication.publish()
        except BaseException as error:
            self._undo(publication, error)
            raise
        self._is_unfinished = False
        return publication.kept

    def _undo(self, publication: Publication, error: BaseException) -> None:
        """Moves everything back. If that fails too, everything stays for the next run, and the
        error's hint says so."""
        try:
            publication.undo()
        except StorageError as second:
            error.add_note(f"undoing what was published failed too: {second}")
            if isinstance(error, StorageError):
                error.hint = f"some names of {self.output} are new and some are as before: the next run there undoes it"
        else:
            self._is_unfinished = False

    def _sync_tree(self, directory: str) -> None:
        for name in self._env.list_dir(directory):
            if self._env.is_dir(f"{directory}/{name}"):
                self._sync_tree(f"{directory}/{name}")
        self._env.sync_dir(directory)

    def close(self) -> None:
        """Removes the staging folder, and then the lock file with the journal; neither of them if
        something is published and could not be undone."""
        try:
            if not self._is_unfinished:
                remove_tree_in_use(self.directory, self._env)
                if self._sync:  # so that no folder outlives the journal
                    self._env.sync_dir(posixpath.dirname(self.directory))
                self._lock.remove()
        finally:
            self._lock.release()

    def _close_after(self, error: BaseException) -> None:
        """Calls `close` after an `error`. A failure to clean up becomes a note on that error."""
        try:
            self.close()
        except StorageError as second:
            error.add_note(f"cleaning up failed too: {second}")

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._close_after(error)
