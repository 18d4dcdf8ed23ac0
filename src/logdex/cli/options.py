"""Options that several commands share: PATH, the settings of all formats, times, `--json`.

`path_command` turns a command's parameter `target: PathOptions` into the argument PATH and one flag
per declared setting of each format, and a parameter `rows: RowOptions` into the flags that say how
messages or records are printed.
"""

from __future__ import annotations

import functools
import inspect
import posixpath
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, get_args

import typer
from typer.models import OptionInfo

from logdex.cli.completing import complete_path
from logdex.cli.output import human_time
from logdex.cli.rows.row_options import row_parameters, take_row_options
from logdex.cli.times import parse_time
from logdex.errors import UsageError
from logdex.formats import FORMATS, Format
from logdex.jobs.settings import Flag, Setting, flag_of
from logdex.primitives.wrong_questions import LONG_MAX

PathArgument = Annotated[
    str,
    typer.Argument(
        autocompletion=complete_path,
        metavar="PATH",
        help="A RocketMQ store's root (the folder that holds commitlog/) or one CommitLog file, a Kafka log directory, "
        "one topic-N directory or one .log file.",
        show_default=False,
    ),
]
AddressArgument = Annotated[
    str, typer.Argument(metavar="HOST:PORT", help="A RocketMQ master's HA port (haListenPort).", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="JSON lines on stdout.")]
NoSyncOption = Annotated[
    bool, typer.Option("--no-sync", help="Omit fsync: faster, but data may be lost if the power fails.")
]
NoSpaceCheckOption = Annotated[
    bool, typer.Option("--no-space-check", help="Begin even if there seems to be too little free space.")
]
TopicOption = Annotated[str | None, typer.Option("--topic", help="Only this topic.", show_default=False)]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", help="Only this partition (Kafka).", min=0, show_default=False)
]
QueueOption = Annotated[int | None, typer.Option("--queue", help="Only this queue id (RocketMQ).", show_default=False)]


def time_option(flag: str, what: str) -> Any:
    """Returns an option that takes a time."""
    return typer.Option(flag, parser=parse_time, metavar="TIME", help=what, show_default=False)


FromOption = Annotated[
    int | None, time_option("--from", "Stored at or after: epoch milliseconds or ISO 8601, UTC if no zone is given.")
]
ToOption = Annotated[int | None, time_option("--to", "Stored at or before (inclusive).")]
TimeSlackOption = Annotated[
    int | None,
    typer.Option(
        "--time-slack-ms",
        help="How far the broker's clock may have gone back: then times exclude parts of the log (RocketMQ).",
        min=0,
        show_default=False,
    ),
]


OffsetOption = Annotated[
    int | None, typer.Option("--offset", help="Begin at this offset in each queue or partition.", show_default=False)
]
PhysicalOffsetOption = Annotated[
    int | None,
    typer.Option(
        "--physical-offset", help="Begin at the message at this CommitLog offset (RocketMQ).", show_default=False
    ),
]


def _format_name(text: str) -> str:
    if text not in FORMATS:
        raise typer.BadParameter(f"{text!r} is not one of {', '.join(sorted(FORMATS))}")
    return text


def format_option(flag: str) -> Any:
    """Returns an option that takes the name of a format."""
    choices = f"<{'|'.join(sorted(FORMATS))}>"
    return typer.Option(flag, parser=_format_name, metavar=choices, help="The format to write.", show_default=False)


DecompressOption = Annotated[bool, typer.Option("--decompress", help="With --json: decompress compressed bodies.")]
NewOutputOption = Annotated[
    str | None, typer.Option("--output", "-o", metavar="DIR", help="Where to write; must be empty.", show_default=False)
]
GrepOption = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="Only messages with this text in key, value, tag, header or property; /REGEX/ for a pattern.",
        show_default=False,
    ),
]
WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COMPARISON",
        help="Only messages for which this holds: 'FIELD = VALUE', or != < <= > >=; may be repeated.",
        show_default=False,
    ),
]
FollowOption = Annotated[bool, typer.Option("--follow", help="Wait for more at the end; Ctrl-C ends it.")]
ControlOption = Annotated[bool, typer.Option("--control", help="Include control records (Kafka).")]
IsolationOption = Annotated[
    str | None,
    typer.Option(
        "--isolation-level",
        metavar="LEVEL",
        help="Read what a consumer reads: read_uncommitted (from the log start offset on) or read_committed (Kafka).",
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class PathOptions:
    """PATH without slashes at its end, and the given settings by name.

    `flags` are the flags of the command's own options by parameter name, for messages.
    """

    path: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)

    def with_settings(self, **more: Any) -> PathOptions:
        """Returns these options with more settings. None and False count as not given."""
        return replace(self, settings={**self.settings, **given(more)})

    def flag(self, name: str) -> str:
        """Returns the flag of a setting or of an option of the command."""
        return self.flags.get(name) or flag_of(name)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options that were given: those that are neither None nor False."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


_SECONDS_MAX = 10**9
_PLACES = ("DIR", "FILE")
"""The metavars of options that are paths."""


def output_of(command: str, path: str, output: str | None, *, in_place: bool | None = None) -> str | None:
    """Returns the `--output` of a command; None if it writes in place. `in_place` is None for a
    command that cannot.

    Raises `UsageError` unless exactly one of the two is given.
    """
    if in_place and output is not None:
        raise UsageError("--output and --in-place exclude each other", hint="give one of them")
    if not in_place and output is None:
        hint = f"logdex {command} {shlex.quote(path)} --output DIR{'' if in_place is None else ', or --in-place'}"
        raise UsageError("where to?", hint=hint)
    return output


def require_folder_of(flag: str, path: str | None) -> None:
    """Raises `UsageError` if there is no directory for the new file that an option names, before
    the work for it begins."""
    from logdex.io.env import DEFAULT_ENV
    from logdex.io.remote.schemes import scheme_of

    folder = None if path is None else posixpath.dirname(path) or "."
    if folder is None or scheme_of(folder) is not None or DEFAULT_ENV.is_dir(folder):
        return  # what has a scheme is refused where it is opened
    mkdir = "" if DEFAULT_ENV.exists(folder) else f"mkdir -p {shlex.quote(folder)}, or "
    raise UsageError(f"{flag} {path}: there is no directory {folder}", hint=f"{mkdir}choose another place")


def path_command(function: Callable[..., None]) -> Callable[..., None]:
    """Returns a command for a function with a parameter `target: PathOptions`.

    PATH becomes the command's first parameter, and the flags of all formats' settings its last
    ones.
    """
    return _command(function, PathArgument, FORMATS.values())


def address_command(function: Callable[..., None]) -> Callable[..., None]:
    """As `path_command`, for a command whose argument is the address of a master. Its settings are
    those of the formats that have masters."""
    return _command(function, AddressArgument, [each for each in FORMATS.values() if each.follow is not None])


def _command(function: Callable[..., None], argument: Any, formats: Iterable[Format]) -> Callable[..., None]:
    parameters = _parameters(function)
    own = [parameter for parameter in parameters if parameter.name not in ("target", "rows")]
    prints_rows = any(parameter.name == "rows" for parameter in parameters)
    own += row_parameters() if prints_rows else []
    flags = {parameter.name: _flag_of(parameter) for parameter in own}
    path = inspect.Parameter("path", inspect.Parameter.KEYWORD_ONLY, annotation=argument)
    declared = [setting for each in formats for setting in each.settings]
    settings = [_setting_parameter(setting, setting.flag) for setting in declared if setting.flag is not None]

    places = [parameter.name for parameter in (*own, *settings) if _metavar_of(parameter) in _PLACES]

    @functools.wraps(function)
    def command(**options: Any) -> None:
        path = options.pop("path")
        _require_no_empty(path, {flags.get(name) or flag_of(name): options[name] for name in places})
        values = {parameter.name: options.pop(parameter.name) for parameter in settings}
        _require_possible(options, flags)
        if prints_rows:
            options["rows"] = take_row_options(options)
        function(target=PathOptions(path.rstrip("/") or path[:1], given(values), flags), **options)

    keyword = inspect.Parameter.KEYWORD_ONLY
    merged = [parameter.replace(kind=keyword) for parameter in (path, *own, *settings)]
    command.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in merged}
    del command.__wrapped__
    return command


def _require_possible(options: Mapping[str, Any], flags: Mapping[str, str]) -> None:
    """Raises `UsageError` for times in the wrong order, and for numbers that no file can hold."""
    begin_ms, end_ms = options.get("begin_ms"), options.get("end_ms")
    if begin_ms is not None and end_ms is not None and begin_ms > end_ms:
        raise UsageError(
            f"--from {human_time(begin_ms)} is later than --to {human_time(end_ms)}", hint="exchange the two"
        )
    for name, value in options.items():
        if isinstance(value, int) and not -LONG_MAX - 1 <= value <= LONG_MAX:
            raise UsageError(f"{flags.get(name, name)} is {value}", hint=f"the largest number is {LONG_MAX}")
        if isinstance(value, float) and not abs(value) <= _SECONDS_MAX:  # nan is not
            raise UsageError(f"{flags.get(name, name)} is {value}", hint=f"the largest number is {_SECONDS_MAX}")


def _require_no_empty(path: str, places: Mapping[str, str | None]) -> None:
    """Raises `UsageError` for the path of a file or directory that is empty, as a variable of the
    shell is that was never set. It would mean the current directory."""
    for flag, value in {"PATH": path, **places}.items():
        if value == "":
            raise UsageError(f"{flag} is empty", hint="give a path, or . for the current directory")


def _metavar_of(parameter: inspect.Parameter) -> str | None:
    return next((mark.metavar for mark in get_args(parameter.annotation) if isinstance(mark, OptionInfo)), None)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _setting_parameter(setting: Setting, flag: Flag) -> inspect.Parameter:
    option = typer.Option(
        flag_of(setting.name), help=flag.help, metavar=flag.metavar, show_default=False, rich_help_panel="Geometry"
    )
    number_or_text = int if int in (setting.value_type, *get_args(setting.value_type)) else str
    annotation = Annotated[number_or_text | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _flag_of(parameter: inspect.Parameter) -> str:
    """Returns the flag of a command's parameter: the one that its annotation names, else its
    name."""
    options = (mark for mark in get_args(parameter.annotation) if isinstance(mark, OptionInfo))
    named = (name for option in options for name in (option.default, *(option.param_decls or ())))
    return next((name for name in named if isinstance(name, str) and name.startswith("--")), flag_of(parameter.name))
