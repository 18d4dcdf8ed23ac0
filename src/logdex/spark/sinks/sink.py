"""What a sink is, whatever the format: it turns the rows of a DataFrame into rows to append, and
opens the logs that these go to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

import pyarrow as pa

from logdex.errors import NotAStoreError
from logdex.formats import detect
from logdex.io.env import DEFAULT_ENV, Env
from logdex.spark.sinks.commit import Destination
from logdex.spark.sources.options import Options
from logdex.spark.sources.paths import find_paths

SINK_OPTIONS = ("path", "paths", "topic", "checkpointLocation", "queryName")
"""The options that every sink has. Spark gives it its own options checkpointLocation and queryName,
too."""


class Sink(Protocol):
    """A directory with logs that rows are appended to. It can be pickled and has no open files."""

    directory: str

    def prepared(self, batches: Iterator[pa.RecordBatch], task: int, now_ms: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a task as they are staged. Raises `UsageError` for rows that no log
        can have."""

    def open(self, env: Env = DEFAULT_ENV) -> AbstractContextManager[Destination]:
        """Opens the logs, with their lock. Raises `LogInUseError` if another has it."""


def directory_of(options: Options, format_name: str, env: Env = DEFAULT_ENV) -> str:
    """Returns the one directory that the options name. Raises `UsageError` for several, and for one
    of another format."""
    paths = find_paths(options, env)
    if len(paths) > 1:
        raise options.wrong("path", "name one directory to write to")
    try:
        found = detect(paths[0], env=env)
    except NotAStoreError:
        return paths[0]  # it is new, or has nothing yet
    if found.format != format_name:
        raise options.wrong("path", f"it is {found.description}")
    return paths[0]
