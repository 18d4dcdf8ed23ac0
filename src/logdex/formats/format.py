"""The interface of a format for code that is the same for all formats: its name, its settings and
its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from logdex.errors import LogdexError
from logdex.io.path_look import PathLook
from logdex.jobs.settings import Setting

if TYPE_CHECKING:
    from logdex.frames.tables import LogTables
    from logdex.jobs.dispatching import DispatchJob
    from logdex.jobs.findings import VerifyReport
    from logdex.jobs.journal import Unfinished
    from logdex.jobs.reports import Progress, RebuildReport
    from logdex.jobs.tasks import Runner

Settings = Mapping[str, Any]
"""Given settings by name. The others are inferred from the files, or are the broker's defaults."""


class FoundPath(Protocol):
    """A path and the kind of what is there. Each format has its own class for it."""

    @property
    def format(self) -> str:
        """The name of its format."""

    @property
    def path(self) -> str:
        """The path as it was given, without slashes at its end."""

    @property
    def kind(self) -> Enum:
        """What is there, among the kinds of its format: a store, one segment's .log, …"""

    @property
    def description(self) -> str:
        """The kind in words: ``a RocketMQ store``, ``a Kafka .log file``."""


@dataclass(frozen=True, slots=True)
class RebuildJob:
    """A rebuild that is ready to run: its input has been found and its settings are resolved."""

    output: str
    size_bytes: int
    """The size of the logs that it reads."""
    run: Callable[[Progress | None], RebuildReport]
    """Runs it in this process."""
    run_on: Callable[[Runner, str], RebuildReport]
    """Runs it on a runner. The second argument is the `engine` of its report."""


@dataclass(frozen=True, slots=True)
class RecoverJob:
    """A recovery that is ready to run, like `RebuildJob`."""

    output: str
    size_bytes: int
    run: Callable[[Runner | None], Any]
    """Runs it in this process, with None in one thread, and returns the report."""


class FollowJob(Protocol):
    """A master that is being followed into a directory."""

    report: Any

    def run(self, *, until_caught_up: bool = False, progress: Progress | None = None) -> Any:
        """Follows until `stop` is called, and returns the report."""

    def stop(self) -> None:
        """Ends `run` soon; safe in a signal handler."""

    def close(self) -> None:
        """Closes the directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One format.

    Its functions import what they need when they are called, so that importing the registry is
    cheap. They take a path that `recognise` returned; `settings` are the given ones by name; files
    are read and written through `env`.
    """

    name: str
    """The `format` of its paths, and the folder of its views: `cli/views/NAME`."""
    title: str
    """The name as the broker's project spells it."""
    paths: tuple[str, ...]
    """The kinds of paths that hold messages, in words, for hints."""
    log_title: str
    """The word for the logs from which everything else is derived."""
    settings: tuple[Setting, ...]
    rebuild_settings: tuple[str, ...] = ()
    """The names of settings that only `rebuild` takes."""

    recognise: Callable[[PathLook], FoundPath | None]
    """Returns what is at a path, or None if it is not of this format. Raises
    `UnsupportedLayoutError`."""
    why_not: Callable[[PathLook, str], LogdexError | None]
    """Returns the reason, if the format knows one, why nothing at a path can be read. The second
    argument is a hint for the error."""

    open: Callable[..., Any]
    """``(found, *, env, **settings)``: opens a read-only snapshot, a context manager with
    `scan(...)` and the look-ups of the format."""
    overview: Callable[..., Any]
    """``(found, settings, *, env)``: returns what `info` shows, with `problems` and `to_json()`."""
    unfinished: Callable[..., list[Unfinished]]
    """``(found, *, env)``: returns the publications there that were broken off or are under way."""
    log_size_bytes: Callable[..., int]
    """``(found, *, env)``: returns the size of the logs, for a progress bar."""
    verify: Callable[..., VerifyReport]
    """``(found, settings, *, max_findings, checks, runner, env)``: checks everything and
    changes nothing, in tasks on `runner` if there is one."""
    rebuild: Callable[..., RebuildJob]
    """``(found, settings, output, *, in_place, sync, env)``: prepares the job that derives all
    indexes from the logs. It writes beside the logs if `output` is None (`in_place`)."""
    recover: Callable[..., RecoverJob]
    """``(found, settings, output, *, in_place, sync, env)``: prepares the job that writes a clean
    log with all that can be read of a damaged one. Raises `UsageError` if the format has no such
    job."""

    follow: Callable[..., FollowJob] | None = None
    """``(address, output, settings, *, tap, start, retry_for_s, env)``: prepares to follow a master
    at ``HOST:PORT`` into a directory. None if the format's brokers have no such masters. One format
    at most has it, because an address does not tell its format."""

    dispatch: Callable[..., DispatchJob] | None = None
    """``(found, settings, output, *, env)``: prepares to derive the indexes into a directory, from
    where an earlier run ended. None if the format has no such job."""
    tables: Callable[..., LogTables] | None = None
    """``(found, snapshot, *, env, **options)``: returns the tables of an opened snapshot, for SQL.
    None if the format has none."""
    table_options: tuple[str, ...] = ()
    """The names of the options of `tables`."""

    @property
    def setting_names(self) -> frozenset[str]:
        """The names of all settings, those of `rebuild` included."""
        return frozenset((*(setting.name for setting in self.settings), *self.rebuild_settings))
