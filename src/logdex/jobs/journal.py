"""The journal of a publication: which names it moves where. It is the content of the lock file of
the output.

The journal is on disk before the first name is moved, and it goes with the lock file when the last
name is in place. So a journal without a running process means that a run was killed while it
published. The next run undoes what it finds (`jobs.publication`), and readers report it
(`find_unfinished`).
"""

from __future__ import annotations

import json
import posixpath
import warnings
import zlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from logdex import limits
from logdex.errors import CorruptError, StorageError, StoreError, UnfinishedPublicationWarning, UsageError
from logdex.io.env import Env
from logdex.io.name_changes import FileStamp
from logdex.io.process_lock import lock_is_held
from logdex.jobs.findings import FindingCollector

LOCK_NAME = ".logdex-lock"
_MAGIC = b"logdex publication 1\n"

ASIDE, PUT, BACK = "aside", "put", "back"


@dataclass(frozen=True, slots=True)
class Step:
    """One name of the output, and what happens to it.

    `kind` is ``aside`` (what has the name is kept as `kept`), ``put`` (the staged file or folder of
    that name takes its place, and what it replaces is kept as `kept`) or ``back`` (what was set
    aside as `kept` has its name again). `old` and `new` identify what had the name before and what
    has it afterwards. If it is a folder, `old_files` and `new_files` identify the state of all
    files below it, since a folder's own time stays when they are written to. Names are relative to
    the output. `staged` is the name below the staging folder if that is another one. The steps of a
    `phase` are on disk before those of the next one are carried out.
    """

    kind: str
    name: str
    kept: str | None = None
    old: FileStamp | None = None
    new: FileStamp | None = None
    old_files: int | None = None
    new_files: int | None = None
    staged: str | None = None
    phase: int = 0


@dataclass(slots=True)
class Journal:
    """What a run stages and publishes. `output` and `staging` are relative to the directory of the
    journal, so that they hold if it is moved. Without `steps`, nothing has been published yet.
    `command` is what to type to run it again, and `settings` are the sizes that it inferred, by the
    name whose files show them. `in_place` states whether the run reads what it publishes into: a
    broker's directory, in which it is undone under the broker's lock only."""

    command: str
    output: str
    staging: str
    settings: dict[str, dict[str, int]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    in_place: bool = False

    def to_bytes(self) -> bytes:
        """Returns the content of the journal's file."""
        text = json.dumps(asdict(self)).encode("ascii")
        return _MAGIC + text + b"\n%08x\n" % zlib.crc32(text)

    @staticmethod
    def from_bytes(data: bytes) -> Journal | None:
        """Returns the journal in a file's content; None if there is none, or none that was written
        completely. Raises `ValueError`, `TypeError` or `KeyError` if it is malformed."""
        text, _, crc = data.removeprefix(_MAGIC).rstrip(b"\n").rpartition(b"\n")
        if not data.startswith(_MAGIC) or crc != b"%08x" % zlib.crc32(text):
            return None
        fields = json.loads(text)
        fields["steps"] = [_step(each) for each in fields["steps"]]
        journal = Journal(**fields)
        journal._require_sound()
        return journal

    def _require_sound(self) -> None:
        """Raises `ValueError` if the journal names anything outside its directory, or is not what a
        run writes."""
        settings: object = self.settings
        command: object = self.command
        if not isinstance(command, str):
            raise ValueError("a command that cannot be")
        if not isinstance(settings, dict) or not all(isinstance(sizes, dict) for sizes in settings.values()):
            raise ValueError("settings that cannot be")
        names = [name for step in self.steps for name in (step.name, step.kept) if name is not None]
        staged = [f"{self.staging}/{step.staged}" for step in self.steps if step.staged is not None]
        for path in [self.staging, self.output, *staged, *(f"{self.output}/{name}" for name in names)]:
            if posixpath.isabs(path) or posixpath.normpath(path).split("/")[0] == "..":
                raise ValueError(f"{path[:80]!r} lies outside")


def _step(fields: dict[str, Any]) -> Step:
    stamps = {name: FileStamp(*fields[name]) for name in ("old", "new") if fields[name] is not None}
    step = Step(**fields | stamps)
    keeps = step.kind in (ASIDE, BACK) or step.old is not None
    if step.kind not in (ASIDE, PUT, BACK) or not isinstance(step.name, str) or keeps != isinstance(step.kept, str):
        raise ValueError("a step that cannot be")
    return step


def read_journal(directory: str, env: Env) -> Journal | None:
    """Returns the journal in `directory`; None if there is none. Raises `CorruptError` if it is
    malformed, or names anything outside the directory."""
    path = f"{directory}/{LOCK_NAME}"
    found = env.stamp(path)
    if found is None or found.kind != "file" or not found.size_bytes:
        return None
    data = env.read_file(path, limits.CONFIG_FILE_SIZE_BYTES_MAX)
    try:
        return Journal.from_bytes(data)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorruptError(
            f"no journal of a publication: {error}",
            path=path,
            position=0,
            hint="look at what has put it there, and remove it",
        ) from error


def write_journal(directory: str, journal: Journal, *, sync: bool, env: Env) -> None:
    """Writes the journal into the lock file in `directory`, which the caller holds."""
    with env.open_write(f"{directory}/{LOCK_NAME}") as file:
        file.truncate(0)
        file.write_at(0, journal.to_bytes())
        if sync:
            file.sync()
    if sync:
        env.sync_dir(directory)


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A publication that was broken off in `directory`, or is under way (`is_running`). `command`
    completes it, and `paths` are those that it changes."""

    directory: str
    command: str
    is_running: bool
    paths: tuple[str, ...] = ()

    def changes(self, path: str) -> bool:
        """Whether it changes what is at a path, given as its real path, or something below."""
        return any(f"{each}/".startswith(f"{path}/") or f"{path}/".startswith(f"{each}/") for each in self.paths)

    @property
    def message(self) -> str:
        """What is there, in words."""
        if self.is_running:
            return f"{self.command} is publishing here"
        return f"{self.command} was killed while it published: some files are new, and some are as before"

    @property
    def error(self) -> UsageError:
        """The error for whoever is about to write there."""
        hint = "wait for it" if self.is_running else f"run it again, which first undoes that: {self.command}"
        return UsageError(f"{self.directory}: {self.message}", hint=hint)


UNFINISHED_CHECK = "unfinished-publication"
"""The name of the check of `verify`, in both formats."""


def report_unfinished(found: Iterable[Unfinished], out: FindingCollector) -> None:
    """Reports publications: a finding for each that was broken off, information on each that is
    under way."""
    for each in found:
        path = f"{each.directory}/{LOCK_NAME}"
        if each.is_running:
            out.info("publishing", path, each.message)
        else:
            expected = "all files old, or all new"
            out.find(UNFINISHED_CHECK, path, 0, each.message, expected=expected, mend=each.command)


def warn_of_unfinished(found: Iterable[Unfinished], *, depth: int) -> None:
    """Warns of publications where a directory is opened. `depth` is the number of calls between
    this one and the code of the user, to which the warning belongs."""
    for each in found:
        error = each.error
        warnings.warn(f"{error.message}; {error.hint}", UnfinishedPublicationWarning, stacklevel=depth + 2)


def unfinished_of(directory: str, journal: Journal, *, is_running: bool) -> Unfinished:
    """Returns the publication that a journal in `directory` is about."""
    # The directory may have a scheme, whose two slashes `normpath` would make one.
    names = (posixpath.normpath(posixpath.join(journal.output, step.name)) for step in journal.steps)
    paths = tuple(posixpath.join(directory, name) for name in names)
    return Unfinished(directory, journal.command, is_running, paths)


def find_unfinished(directories: Iterable[str], env: Env, *, is_writer: bool = False) -> list[Unfinished]:
    """Returns the publications that were broken off or are under way in these directories. Changes
    nothing. What cannot be read counts as none; for a writer it raises `StorageError`."""
    found = []
    for directory in directories:
        try:
            journal = read_journal(directory, env)
            if journal is not None and journal.steps:
                is_running = lock_is_held(posixpath.join(directory, LOCK_NAME), env=env) is True
                found.append(unfinished_of(directory, journal, is_running=is_running))
        except StoreError as error:
            if is_writer and isinstance(error, StorageError):
                raise
    return found
