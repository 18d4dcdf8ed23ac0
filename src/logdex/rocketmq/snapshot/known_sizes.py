"""The sizes and the version of a store that is read while somebody may begin to write it."""

from __future__ import annotations

from logdex.errors import GeometryError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.consume_queue.consume_queue import discover_queues
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.resolve import resolve_in_any_case
from logdex.rocketmq.index_file.index_paths import newest_indexed
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.store_settings import StoreSettings


class KnownSizes:
    """The configuration of the store at `root`: the given one, or what settings and files show.

    Sizes that neither states are guesses until files have appeared, and are looked for again then.
    The methods are for one thread at a time. Raises `UsageError` if both a config and settings are
    given.
    """

    def __init__(self, root: str, config: StoreConfig | None, settings: StoreSettings, env: Env) -> None:
        if config is not None and settings:
            raise UsageError("both a config and single settings", hint="give one of them")
        self._root, self._settings, self._env = root, settings, env
        self._may_change = config is None and not env.is_file(root)
        self._seen: object = None
        """The files that were there when the sizes were looked for again the last time."""
        self.index_error: GeometryError | None = None
        """Why the IndexFiles cannot be read; only reading them needs their geometry."""
        if config is None:
            config, self.index_error = resolve_in_any_case(root, env=env, **settings)
        self.config = config

    @property
    def are_guesses(self) -> bool:
        """Whether files that appear later may show other sizes."""
        return self._may_change and (self.config.has_guessed_sizes or self.index_error is not None)

    def look_again(self) -> bool:
        """Resolves what was a guess, if files have appeared since. Returns whether it did."""
        if not self.are_guesses:
            return False
        paths = StorePaths(self._root)
        has_queues = any(True for _ in discover_queues(self._root, env=self._env))
        seen = newest_indexed(paths.index, self._env), has_queues
        if seen == self._seen:
            return False
        self._seen = seen  # files that appear meanwhile are seen the next time
        self.config, self.index_error = resolve_in_any_case(self._root, env=self._env, **self._settings)
        return True

    def refresh(self) -> bool:
        """As `look_again`, but IndexFiles that showed no sizes are left to `open_index`: looking at
        them takes long."""
        return self.index_error is None and self.look_again()

    def open_index(self) -> IndexService:
        """Opens the IndexFiles. Raises `GeometryError` if they show no geometry, or another one
        than is stated."""
        self.look_again()
        while True:
            if self.index_error is None:
                try:
                    return IndexService(StorePaths(self._root).index, self.config, env=self._env)
                except GeometryError as error:
                    problem = error
            else:
                problem = self.index_error
            if not self.look_again():  # else the first file was filled meanwhile
                raise problem
