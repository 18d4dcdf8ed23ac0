"""Checks where a job over a directory may write, and stages its files until they are published.

A job that derives or recovers files reads a directory, its *source*. It writes to an output
elsewhere or, with ``--in-place``, to the source itself. The output must not lie inside the source,
and must not be a directory in which publishing or cleaning up would move the source away.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.io.process_lock import lock_is_held
from logdex.jobs.journal import LOCK_NAME, read_journal
from logdex.jobs.staging import OutputLock, Staging


def check_output(
    output: str,
    root: str,
    *,
    home: str | None = None,
    published: Collection[str] = (),
    in_place: bool,
    may_be_in_place: bool = True,
    env: Env,
) -> None:
    """Raises `UsageError` if a job that reads `root`, a real path, may not write to `output`.

    With `in_place` the output must be `root` itself. Otherwise it must not lie in `home`, the
    directory around `root` that belongs to the same broker (`root` by default), and must not
    contain `root` under a name that the job replaces. `published` are the names of these
    directories. `may_be_in_place` states whether the error's hint may suggest ``--in-place``.
    """
    target, home = env.real_path(output), home or root
    if in_place:
        if target != root:
            raise UsageError(f"--in-place writes into {root} itself", hint="leave out --output")
        return
    if _lies_in(target, home):
        hint = "choose another --output" + (", or give --in-place" if may_be_in_place else "")
        raise UsageError(f"{output} lies in {home}", hint=hint)
    if _lies_in(root, target):
        name = posixpath.relpath(root, target).split("/")[0]
        if name in published or name.startswith(STAGING_PREFIX):
            raise UsageError(
                f"{root} lies in {posixpath.join(output, name)}, which would be replaced",
                hint="choose another --output",
            )


def _lies_in(path: str, directory: str) -> bool:
    """Whether a real path is a directory or below it. One of them may have a scheme."""
    return f"{path}/".startswith(f"{directory.rstrip('/')}/")


def require_empty(output: str, *, env: Env) -> None:
    """Raises `UsageError` if `output` contains anything other than the remains of a killed run."""
    if not env.exists(output):
        return
    if any(name != LOCK_NAME and not name.startswith(STAGING_PREFIX) for name in env.list_dir(output)):
        raise UsageError(f"{output} is not empty", hint="choose another --output, or empty it")


def settle_unfinished(
    homes: Iterable[str],
    *,
    in_place: bool = False,
    locked: Callable[[], AbstractContextManager[object]] = nullcontext,
    sync: bool,
    env: Env,
) -> list[str]:
    """Undoes what killed runs published in an output, and returns what was undone, in words.

    A job calls this before it looks at what it reads and at what is in its output. `homes` are the
    directories in which a journal may lie, and `locked` takes the broker's lock, for a job that
    writes in place. Raises `UsageError` if another run is writing there, and, unless `in_place`, if
    a run in place was killed there.
    """
    notes: list[str] = []
    for home in homes:
        path = f"{home}/{LOCK_NAME}"
        found = env.stamp(path)
        if found is None or found.kind != "file":
            continue
        if lock_is_held(path, env=env):
            raise UsageError(f"{home}: another run is writing here", hint="wait for it, or choose another --output")
        journal = read_journal(home, env)
        if journal is not None and journal.steps:
            with locked():
                lock = OutputLock(home, home, in_place=in_place, sync=sync, env=env)
                try:
                    notes += lock.notes
                    lock.remove()
                finally:
                    lock.release()
    return notes


def command_line(command: str, root: str, output: str, *, in_place: bool, flags: str = "") -> str:
    """Returns what to type, in a shell, to run a job again; `flags` are those of its settings."""
    where = "--in-place" if in_place else f"--output {shlex.quote(output)}"
    return f"logdex {command} {shlex.quote(root)} {where}{flags}"


@contextmanager
def staged_output(
    output: str,
    *,
    in_place: bool,
    lock: AbstractContextManager[object],
    command: str = "a run",
    staging_home: str | None = None,
    lock_home: str | None = None,
    sync: bool,
    env: Env,
) -> Iterator[Staging]:
    """Opens the staging folder for `output` during the block.

    If `in_place`, the broker's `lock` is held during the block, and the folder is made in
    `staging_home` if it is given: a directory of the output in which the broker tolerates a folder.
    The lock file is then in `lock_home` if that is given: the directory that all runs in place that
    must exclude each other have in common. `command` is what to type to run the job again.
    """
    with (
        lock if in_place else nullcontext(),
        Staging(
            env,
            output,
            sync=sync,
            command=command,
            in_place=in_place,
            home=staging_home if in_place else None,
            lock_home=lock_home if in_place else None,
        ) as staging,
    ):
        yield staging
