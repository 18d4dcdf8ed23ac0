"""Writing a directory's new contents aside and publishing them at the end, safe against a kill at any moment.

All is written below ``OUTPUT/.logdex-staging-…``, synced, then renamed into place name by name. What stood there before
is kept under a dated name. A run that was killed leaves a staging folder, which the next one removes; a lock file keeps
two runs from working on one output at once.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from logdex.errors import UsageError
from logdex.io.env import Env

PREFIX = ".logdex-staging-"
LOCK_NAME = ".logdex-lock"


class Staging:
    """A staging folder for one output directory; a context manager that removes what was not published. One thread."""

    def __init__(self, env: Env, output: str, *, sync: bool) -> None:
        self._env = env
        self._sync = sync
        self.output = output
        env.make_dirs(output)
        self._lock = env.lock_file(f"{output}/{LOCK_NAME}")
        if self._lock is None:
            raise UsageError(f"{output}: another run is writing here", hint="wait for it, or choose another --output")
        for name in env.list_dir(output):
            if name.startswith(PREFIX):
                env.remove_tree(f"{output}/{name}")
        self.directory = f"{output}/{PREFIX}{uuid.uuid4().hex[:12]}"
        env.make_dirs(self.directory)

    def publish(self, names: list[str]) -> dict[str, str]:
        """Moves ``staging/NAME`` to ``output/NAME`` for each name; gives where what stood there was kept."""
        if self._sync:
            self._sync_tree(self.directory)
        kept: dict[str, str] = {}
        stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        for name in names:
            target = f"{self.output}/{name}"
            if self._env.exists(target):
                kept[name] = self._free_name(f"{target}.{stamp}")
                self._env.rename(target, kept[name])
            self._env.rename(f"{self.directory}/{name}", target)
        if self._sync:
            self._env.sync_dir(self.output)
        return kept

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
        self._env.remove_tree(self.directory)
        if self._lock is not None:
            self._env.remove(self._lock.path)
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
