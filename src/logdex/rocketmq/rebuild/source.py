"""The source of a rebuild of a store, and the outputs that it allows. Beside a broker that cuts the
log, as one does that recovers, a rebuild begins again: what it has derived may be of two logs."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import nullcontext, suppress
from functools import partial, wraps
from typing import ParamSpec

from logdex.errors import StorageError, StoreError, UnsupportedLayoutError, UsageError
from logdex.io.env import Env
from logdex.io.path_look import PathLook
from logdex.jobs import output as outputs
from logdex.jobs.journal import find_unfinished
from logdex.jobs.look_again import LOOKS_MAX
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.store_files import (
    COMMIT_LOG_DIR,
    CONSUME_QUEUE_DIR,
    CONSUME_QUEUE_EXT_DIR,
    INDEX_DIR,
    StorePaths,
)
from logdex.rocketmq.read.parts.behind_damage import position_behind
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.recognise.store_path import StorePath, StorePathKind
from logdex.rocketmq.scan.scanner import Behind
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.read_mark import ReadMark, is_gone
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

P = ParamSpec("P")

PUBLISHED = (CONSUME_QUEUE_DIR, INDEX_DIR)
"""The names that a rebuild publishes in its output."""


def check_output(root: str, output: str, *, in_place: bool, may_be_in_place: bool = True, env: Env) -> None:
    """Raises `UsageError` if a rebuild of `root`, a store or one CommitLog file, may not write to
    `output`, and `UnsupportedLayoutError` if the store has files that belong to its ConsumeQueues
    and that are not derived."""
    is_file = env.is_file(root)
    _refuse_queue_ext(root, env)
    if in_place and is_file:
        raise UsageError(
            f"--in-place needs a store, and {root} is one file", hint="give --output DIR, or the root as PATH"
        )
    store = _store_of(env.real_path(root), env)
    if not in_place:
        require_whole_log(root, env)
    may_be_in_place = may_be_in_place and not is_file
    outputs.check_output(
        output, store, published=PUBLISHED, in_place=in_place, may_be_in_place=may_be_in_place, env=env
    )


def settle_unfinished(root: str, output: str, *, in_place: bool, sync: bool, env: Env) -> list[str]:
    """Undoes what a killed run published in `output`, before anything there is looked at. Returns
    what was undone, in words."""
    locked = partial(broker_lock, root, env=env) if in_place else nullcontext
    return outputs.settle_unfinished([output], in_place=in_place, locked=locked, sync=sync, env=env)


def behind_unreadable(root: str, log: CommitLog, config: StoreConfig, env: Env) -> Behind:
    """Returns what decides where a rebuild goes on behind bytes that the disk cannot read. The
    ConsumeQueues that the store has may prove where a message begins."""
    return partial(position_behind, store=None if log.is_one_file else root, config=config, env=env)


def require_whole_log(root: str, env: Env) -> None:
    """Raises `UsageError` if a recovery of the store at `root`, or around one CommitLog file, was
    killed while it published the log: the next run undoes that, and what had been derived from the
    log would be of another one. Raises `StorageError` if that cannot be found out."""
    store = _store_of(env.real_path(root), env)
    for each in find_unfinished([store], env, is_writer=True):
        if StorePaths(store).commit_log in each.paths:
            raise each.error


def _refuse_queue_ext(root: str, env: Env) -> None:
    """Refuses a store whose ConsumeQueues lead to ConsumeQueueExt files."""
    directory = f"{root}/{CONSUME_QUEUE_EXT_DIR}"
    look = PathLook(directory, env)
    if any(look.names(f"{topic}/{queue}") for topic in look.names() for queue in look.names(topic)):
        raise UnsupportedLayoutError(
            "ConsumeQueueExt: a rebuild does not derive these files, to which the ConsumeQueues of this store lead",
            path=directory,
            hint="copy commitlog/ elsewhere and rebuild that: a broker reads such ConsumeQueues as well, "
            "only the bit maps of consumers' filters are missing",
        )


def _store_of(root: str, env: Env) -> str:
    """Returns the store that `root` is or, for one CommitLog file, the store around it. Files of
    that store must not be replaced by those of a single file."""
    folder = posixpath.dirname(root)
    lies_in_store = env.is_file(root) and posixpath.basename(folder) == COMMIT_LOG_DIR
    return posixpath.dirname(folder) if lies_in_store else root


class _LogCutError(StorageError):
    """The log was cut while it was read."""


def again_if_cut(run: Callable[P, RebuildReport]) -> Callable[P, RebuildReport]:
    """Returns a rebuild that begins again where the log was cut, at most `LOOKS_MAX` times."""

    @wraps(run)
    def until_whole(*args: P.args, **kwargs: P.kwargs) -> RebuildReport:
        for _ in range(LOOKS_MAX - 1):
            with suppress(_LogCutError):
                return run(*args, **kwargs)
        return run(*args, **kwargs)

    return until_whole


class UncutLog:
    """A log that is read from now on. Leaving a `with` block raises a `StorageError`, also in place
    of another `StoreError`, if the newest message that the log had is not there any more."""

    def __init__(self, root: str, config: StoreConfig, env: Env) -> None:
        self._root, self._config, self._env = root, config, env
        self._mark = self._newest_mark()

    def _newest_mark(self) -> ReadMark | None:
        store = StorePath(self._root, StorePathKind.STORE, self._root)  # whoever calls has looked at it
        with suppress(StoreError):  # whoever derives the files meets what cannot be read
            if not self._env.is_file(self._root):
                with StoreSnapshot(store, config=self._config, env=self._env) as snapshot:
                    return snapshot.newest_mark()
        return None

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None and not isinstance(error, StoreError):
            return
        if is_gone(self._mark, lambda: CommitLog.of_config(self._root, self._config, env=self._env)):
            hint = "run it again once the broker has started"
            raise _LogCutError("a broker has cut the log while it was read", path=self._root, hint=hint) from error
