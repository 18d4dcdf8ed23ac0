"""The directory below a store's root in which consumers keep what no broker reads: who is a member
of which group, and the lock that orders what they change.

The lock is held for a moment only. The system drops the lock of a process that dies.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from logdex.errors import LogInUseError, UsageError
from logdex.io.env import Env
from logdex.io.process_lock import LockHolder, take_lock

CONSUMERS_DIR = ".logdex-consumers"
_LOCK_FILE = "lock"
_PAUSE_S = 0.001
_PATIENCE_S = 30.0
_GROUP = re.compile(r"[%|a-zA-Z0-9_-]{1,255}")
"""What the broker accepts as the name of a group (Validators.checkGroup)."""


def checked_group(group: str) -> str:
    """Returns a group's name. Raises `UsageError` for one that no broker accepts."""
    if not isinstance(group, str) or not _GROUP.fullmatch(group):
        raise UsageError(f"the group {group!r} has no valid name", hint="use letters, digits, - _ % |")
    return group


def group_dir(root: str, group: str) -> str:
    """The directory of a group's members."""
    return f"{root}/{CONSUMERS_DIR}/{group}"


@contextmanager
def consuming_lock(root: str, env: Env) -> Iterator[None]:
    """Holds the lock of a store's consumers, for this thread and this process alone. Waits for it.

    Raises `LogInUseError` if another holds it for very long.
    """
    directory = f"{root}/{CONSUMERS_DIR}"
    if not env.is_dir(directory):
        env.make_dirs_durably(directory)
    until = time.monotonic() + _PATIENCE_S
    lock = take_lock(f"{directory}/{_LOCK_FILE}", env=env)
    while isinstance(lock, LockHolder):
        if time.monotonic() > until:
            raise LogInUseError(
                f"{lock.value} has held the consumers' lock for {_PATIENCE_S:.0f} s",
                path=root,
                hint="look for a consumer that was stopped",
            )
        time.sleep(_PAUSE_S)
        lock = take_lock(f"{directory}/{_LOCK_FILE}", env=env)
    with lock:
        yield
