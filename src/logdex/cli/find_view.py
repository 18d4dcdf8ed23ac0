"""Finds the view of the format at PATH: the module `views/FORMAT/COMMAND`. Commands do not depend
on formats.

A view's `show` takes the found path, the settings, and those options of the command that apply to
its format, by name. The names of its parameters decide which flags are refused.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from logdex.cli.options import PathOptions, given
from logdex.cli.output import note_ahead
from logdex.errors import UnfinishedPublicationWarning, UsageError
from logdex.formats import FORMATS, Format, FoundPath, detect, format_of

if TYPE_CHECKING:
    from logdex.convert.sources.source import LogSource


def view_of(format_name: str, command: str) -> Any:
    """Returns the module that shows the results of a command for a format. Raises `UsageError` if
    the format has none."""
    view = _view_of(format_name, command)
    if view is None:
        raise UsageError(f"logdex {command} does nothing with paths of {FORMATS[format_name].title}")
    return view


def _view_of(format_name: str, command: str) -> Any:
    name = f"logdex.cli.views.{format_name}.{command}"
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return None


def view_options(format_name: str, command: str, function: str = "show") -> list[str]:
    """Returns the names of the command's options that apply to a format."""
    view = _view_of(format_name, command)
    if view is None:
        return []
    _, _, *options = inspect.signature(getattr(view, function)).parameters
    return options


def find(target: PathOptions) -> FoundPath:
    """Returns what is at PATH. Raises `UsageError` if a setting of another format is given."""
    found = detect(target.path)
    _refuse_others(found, target, target.settings, lambda each: each.setting_names)
    return found


def show(command: str, target: PathOptions, **options: Any) -> bool:
    """Prints what the view of the format at PATH shows. Returns whether everything is in order.

    Raises `UsageError` if a setting or an option of another format is given.
    """
    return bool(_call(command, "show", target, options))


def log_source(target: PathOptions, **bounds: Any) -> LogSource:
    """Returns the messages at PATH that pass a filter, as a conversion reads them. Raises what
    `show` raises."""
    source: LogSource = _call("log_source", "make", target, bounds)
    return source


def _call(command: str, function: str, target: PathOptions, options: Mapping[str, Any]) -> Any:
    found = detect(target.path)
    view = view_of(found.format, command)

    def takes(each: Format) -> Collection[str]:
        return each.setting_names.union(view_options(each.name, command, function))

    _refuse_others(found, target, {**target.settings, **given(options)}, takes)
    own = {name: options[name] for name in view_options(found.format, command, function) if name in options}
    if function != "show" or command == "put":  # put refuses a half-published directory itself
        return getattr(view, function)(found, target.settings, **own)
    is_whole = note_unfinished(found)
    return getattr(view, function)(found, target.settings, **own) and is_whole


def note_unfinished(found: FoundPath) -> bool:
    """Tells of publications at a path. Returns False if one was broken off: some files are new
    then, and some are as before."""
    unfinished = format_of(found).unfinished(found)
    if unfinished:  # what is opened next would warn of what is told here
        warnings.simplefilter("ignore", UnfinishedPublicationWarning)
    for each in unfinished:
        note_ahead(each.error.message, None if each.is_running else each.error.hint)
    return all(each.is_running for each in unfinished)


def create_at(command: str, target: PathOptions, format_name: str, queue: int | None) -> None:
    """Creates what a command writes into, of the given format, where there is nothing yet. `queue`
    is the number of a RocketMQ queue that it is to write into."""
    view_of(format_name, command).create(target.path, target.settings, queue)


def _refuse_others(
    found: FoundPath, target: PathOptions, names: Mapping[str, Any], takes: Callable[[Format], Collection[str]]
) -> None:
    own = takes(format_of(found))
    foreign = [name for name in names if name not in own]
    if not foreign:
        return
    owners = [each.title for each in FORMATS.values() if not set(foreign).isdisjoint(takes(each))]
    words = " and ".join(map(target.flag, foreign))
    verb = "are flags" if len(foreign) > 1 else "is a flag"
    raise UsageError(
        f"{words} {verb} of {' and '.join(owners)}'s, and {found.path} is {found.description}",
        hint=f"leave out {words}",
    )
