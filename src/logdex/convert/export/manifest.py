"""The manifests of an export: one per run, ``_logdex/000001.json``, and so on. The last one states
up to where the logs are exported. Readers of Parquet ignore folders whose names begin with
``_``."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.convert.export.delta_log import has_table
from logdex.convert.export.writer import WrittenFile
from logdex.convert.sources.source import SourcePlan
from logdex.errors import CorruptError, UsageError
from logdex.io.env import Env
from logdex.io.path_look import EXPORT_FOLDER

_NAME = re.compile(r"(\d{6,9})\.json")
_FILE = re.compile(r"run(\d{6,9})-\d+-\d+\.parquet")
_SPARK_FOLDER = "_spark_metadata"
_VERSION = 2
_VERSIONS = (1, 2)
"""Those that can be read. The first has no marks."""
_SIZE_BYTES_MAX = 256 << 20
_FLAGS = {"begin_ms": "from", "end_ms": "to"}
"""Those whose names are not made of the names in a filter."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one run has added. `run` counts from 1; the manifest of run 0 is that of an empty
    output. `filter` is the source's, `messages` the number of rows in `files`. By `marks` a later
    run knows the logs again. `lossy_runs` are the runs before this one that have losses."""

    format: str
    filter: Mapping[str, Any]
    run: int = 0
    positions: Mapping[str, int] = field(default_factory=dict)
    marks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    messages: int = 0
    files: tuple[WrittenFile, ...] = ()
    losses: tuple[str, ...] = ()
    lossy_runs: tuple[int, ...] = ()

    @property
    def all_lossy_runs(self) -> tuple[int, ...]:
        """The runs up to this one that have losses."""
        return (*self.lossy_runs, self.run) if self.losses else self.lossy_runs

    @property
    def name(self) -> str:
        """Its path below the output."""
        return f"{EXPORT_FOLDER}/{self.run:06d}.json"

    def to_bytes(self) -> bytes:
        """Returns the content of its file."""
        return json.dumps({"logdex_export": _VERSION, **asdict(self)}, indent=1).encode("ascii")

    def next(self, plan: SourcePlan, files: list[WrittenFile], losses: list[str]) -> Manifest:
        """Returns the manifest of the run after this one, which has read what is planned."""
        return Manifest(
            self.format,
            self.filter,
            self.run + 1,
            dict(plan.positions),
            dict(plan.marks),
            sum(each.rows for each in files),
            tuple(files),
            tuple(losses),
            self.all_lossy_runs,
        )

    def require_same(self, format_name: str, wanted: Mapping[str, Any], output: str) -> None:
        """Raises `UsageError` if a run with another format or filter cannot go on with this one."""
        hint = "choose another --output"
        if format_name != self.format:
            raise UsageError(f"{output} has messages of another format, {self.format}", hint=hint)
        if dict(wanted) != dict(self.filter):
            told = f"with the filter {json.dumps(self.filter)}" if self.filter else "without a filter"
            raise UsageError(f"{output} was exported {told}", hint=f"{self._how_to_go_on(wanted)}, or {hint}")

    def _how_to_go_on(self, wanted: Mapping[str, Any]) -> str:
        """Which options of ``logdex export`` make another filter the one of this export, in
        words."""
        missing = [_option(name, value) for name, value in self.filter.items() if wanted.get(name) != value]
        others = [_flag(name) for name in wanted if name not in self.filter]
        steps = ([f"give {' '.join(missing)}"] if missing else []) + (
            [f"leave out {', '.join(others)}"] if others else []
        )
        return " and ".join(steps)


def _flag(name: str) -> str:
    """The option that sets a part of a filter."""
    return f"--{_FLAGS.get(name, name.replace('_', '-'))}"


def _option(name: str, value: Any) -> str:
    return _flag(name) if value is True else f"{_flag(name)} {shlex.quote(str(value))}"


def require_own(output: str, has_manifests: bool, env: Env) -> None:
    """Raises `UsageError` for an output that something else than an export has written: the output
    of a Spark stream, of which readers see only the files that the stream's own folder lists, and a
    folder that has no manifests, and other Parquet files or a Delta table. Those of an export are
    left to `require_manifests`."""
    hint = "choose another --output"
    if env.exists(f"{output}/{_SPARK_FOLDER}"):
        raise UsageError(f"{output} is the output of a Spark stream: it has {_SPARK_FOLDER}", hint=hint)
    if not has_manifests and has_table(output, env):
        raise UsageError(f"{output} is a Delta table that no export has written", hint=hint)
    foreign = None if has_manifests or not env.is_dir(output) else _foreign_file(output, env)
    if foreign is not None:
        raise UsageError(f"{foreign} is there, and no export has written it", hint=hint)


def _foreign_file(folder: str, env: Env) -> str | None:
    """Returns a Parquet file that no export has named, None if there is none."""
    for name in env.list_dir(folder):
        path = f"{folder}/{name}"
        if name.startswith(("_", ".")):
            continue  # readers pass over it
        if env.is_dir(path):
            found = _foreign_file(path, env)
            if found is not None:
                return found
        elif name.endswith(".parquet") and _FILE.fullmatch(name) is None:
            return path
    return None


def require_manifests(output: str, run: int, env: Env) -> None:
    """Raises `UsageError` for Parquet files of runs after `run`, whose manifests are gone: the next
    run would replace some of them, and have the rows of the others twice."""
    for topic in _folders(output, "topic=", env):
        for day in _folders(topic, "day=", env):
            for name in env.list_dir(day):
                found = _FILE.match(name)
                if found is not None and int(found[1]) > run:
                    raise UsageError(
                        f"{day}/{name} is there, but not {output}/{EXPORT_FOLDER}/{found[1]}.json, which tells what of "
                        "the log it holds",
                        hint=f"put {EXPORT_FOLDER} back, or choose another --output, or remove the Parquet files",
                    )


def _folders(path: str, prefix: str, env: Env) -> list[str]:
    names = env.list_dir(path) if env.is_dir(path) else []
    return [f"{path}/{name}" for name in names if name.startswith(prefix) and env.is_dir(f"{path}/{name}")]


def last_manifest(output: str, env: Env) -> Manifest | None:
    """Returns the last manifest of an output, None if there is none. Raises `CorruptError` if it is
    not one, and `UsageError` if a later version of Logdex wrote it."""
    paths = _manifest_paths(output, env)
    return _read(paths[-1], env) if paths else None


def exported_files(output: str, env: Env) -> list[WrittenFile] | None:
    """Returns the files that the manifests of an export list, None if there are no manifests.
    Raises the errors of `last_manifest`."""
    paths = _manifest_paths(output, env)
    return [file for path in paths for file in _read(path, env).files] if paths else None


def _manifest_paths(output: str, env: Env) -> list[str]:
    folder = f"{output}/{EXPORT_FOLDER}"
    names = [name for name in env.list_dir(folder) if _NAME.fullmatch(name)] if env.is_dir(folder) else []
    return [f"{folder}/{name}" for name in sorted(names, key=lambda name: int(name.partition(".")[0]))]


def _read(path: str, env: Env) -> Manifest:
    try:
        given = json.loads(env.read_file(path, _SIZE_BYTES_MAX))
        version = given.pop("logdex_export")
        if version not in _VERSIONS:
            raise UsageError(f"{path} is of version {version}", hint="use a newer Logdex, or choose another --output")
        files = tuple(WrittenFile(**each) for each in given.pop("files"))
        positions = {str(name): int(position) for name, position in given.pop("positions").items()}
        marks = {str(name): dict(mark) for name, mark in given.pop("marks", {}).items()}
        losses, lossy_runs = tuple(given.pop("losses")), tuple(given.pop("lossy_runs", ()))
        return Manifest(positions=positions, marks=marks, files=files, losses=losses, lossy_runs=lossy_runs, **given)
    except (ValueError, TypeError, KeyError, AttributeError):
        hint = "choose another --output"
        raise CorruptError("this is no manifest of an export", path=path, position=0, hint=hint) from None
