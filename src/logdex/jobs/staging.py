"""Writes the new contents of a directory to a staging folder and publishes them at the end. A kill
at any time is safe.

Everything is written below ``OUTPUT/.logdex-staging-…``, synced, and then renamed into place, name
by name. What had that name before is kept under a name with a timestamp. After an error, published
names are moved back, so that the output is as before. A killed run leaves its staging folder, which
the next run removes. A lock file prevents two runs from writing to the same output.
"""

from __future__ import annotations

import errno
import posixpath
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType

from logdex.errors import StorageError, UsageError
from logdex.io.env import Env
from logdex.io.process_lock import ProcessLock, take_lock

PREFIX = ".logdex-staging-"
LOCK_NAME = ".logdex-lock"
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


class Staging:
    """A staging folder for one output directory. A context manager that removes what was not
    published. For one thread.

    `home` is the directory of the staging folder and the lock file, if it is not the output itself.
    Raises `UsageError` if another run holds the lock.
    """

    def __init__(self, env: Env, output: str, *, sync: bool, home: str | None = None) -> None:
        self._env = env
        self._sync = sync
        self.output = output
        self._make_output()
        home = home or output
        lock = take_lock(f"{home}/{LOCK_NAME}", env=env)
        if not isinstance(lock, ProcessLock):
            raise UsageError(f"{output}: another run is writing here", hint="wait for it, or choose another --output")
        self._lock: ProcessLock | None = lock
        self.directory = f"{home}/{PREFIX}{uuid.uuid4().hex[:12]}"
        try:
            for name in env.list_dir(home):
                if name.startswith(PREFIX):
                    remove_tree_in_use(f"{home}/{name}", env)
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

    def publish(self, names: Sequence[str], *, stale: Sequence[str] = ()) -> dict[str, str]:
        """Moves ``staging/NAME`` to ``output/NAME`` for each name. Returns, per replaced name, the
        path under which its old content is kept.

        A name may contain a folder that exists in the output. `stale` names are moved aside as
        well, and not replaced. If an error occurs, all moves are undone, as far as the system
        allows.
        """
        if self._sync:
            self._sync_tree(self.directory)
        kept: dict[str, str] = {}
        moved: list[tuple[str, str]] = []
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        try:
            for name, is_new in [*((name, True) for name in names), *((name, False) for name in stale)]:
                target = f"{self.output}/{name}"
                if self._env.exists(target):
                    kept[name] = self._free_name(f"{target}.{stamp}")
                    self._move(target, kept[name], moved)
                if is_new:
                    self._move(f"{self.directory}/{name}", target, moved)
            if self._sync:
                for folder in dict.fromkeys(posixpath.dirname(f"{self.output}/{name}") for name in [*names, *stale]):
                    self._env.sync_dir(folder)
        except BaseException as error:
            self._move_back(moved, error)
            raise
        return kept

    def _move(self, source: str, target: str, moved: list[tuple[str, str]]) -> None:
        self._env.rename(source, target)
        moved.append((source, target))

    def _move_back(self, moved: list[tuple[str, str]], error: BaseException) -> None:
        """Undoes renames, newest first. If that fails too, the error's hint names where the
        replaced content is."""
        while moved:
            source, target = moved[-1]
            try:
                self._env.rename(target, source)
            except StorageError:
                if isinstance(error, StorageError):
                    error.hint = f"what was {source} is now {target}"
                return
            moved.pop()

    def _free_name(self, wanted: str) -> str:
        name, number = wanted, 1
        while self._env.exists(name):
            name, number = f"{wanted}.{number}", number + 1
        return name

    def _sync_tree(self, directory: str) -> None:
        for name in self._env.list_dir(directory):
            if self._env.is_dir(f"{directory}/{name}"):
                self._sync_tree(f"{directory}/{name}")
        self._env.sync_dir(directory)

    def close(self) -> None:
        """Removes the staging folder and the lock."""
        try:
            remove_tree_in_use(self.directory, self._env)
            if self._lock is not None:
                self._env.remove(self._lock.path)
        finally:
            if self._lock is not None:
                self._lock.release()
                self._lock = None

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
