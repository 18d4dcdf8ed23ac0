"""The output of a job that makes a new directory of a format: empty before, complete when it is
published."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from logdex.io.env import Env
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.output import check_output, command_line, require_empty, settle_unfinished, staged_output
from logdex.jobs.publication import Names
from logdex.jobs.staging import Staging, remove_tree_in_use

_TASKS = "tasks"


@dataclass(slots=True)
class NewDirectory:
    """An output that is being made. Tasks write into folders below `home`. `notes` say what was
    left of a killed run."""

    home: str
    notes: list[str] = field(default_factory=list)
    contents: str | None = None
    """The folder below `home` whose contents are to be published. The job sets it."""


@contextmanager
def new_directory(
    command: str, source: str, output: StrPath, *, flags: str = "", sync: bool, env: Env
) -> Iterator[NewDirectory]:
    """Makes `output`, which must be empty, during a block. At its end what is in `contents` is
    published; after an error nothing is. `source` is the real path that is read. `command`, with
    `flags`, is what to type to run it again."""
    target = env.real_path(path_text(output))  # workers have working directories of their own
    check_output(target, source, in_place=False, may_be_in_place=False, env=env)
    notes = settle_unfinished([target], sync=sync, env=env)
    require_empty(target, env=env)
    typed = command_line(command, source, target, in_place=False, flags=flags)
    with staged_output(target, in_place=False, lock=nullcontext(), command=typed, sync=sync, env=env) as staging:
        made = NewDirectory(f"{staging.directory}/{_TASKS}", notes + staging.notes)
        env.make_dirs(made.home)
        yield made
        assert made.contents is not None
        _publish(staging, made.contents, made.home, env)


def _publish(staging: Staging, folder: str, home: str, env: Env) -> None:
    names = env.list_dir(folder)
    for name in names:
        env.rename(f"{folder}/{name}", f"{staging.directory}/{name}")
    remove_tree_in_use(home, env)
    staging.publish(Names(tuple(names)))
