"""Publications in a store that a kill broke off, or that are under way."""

from __future__ import annotations

from logdex.io.env import Env
from logdex.io.path_look import StrPath
from logdex.jobs.journal import Unfinished, find_unfinished, warn_of_unfinished
from logdex.rocketmq.recognise.require_store import require_store
from logdex.rocketmq.recognise.store_path import StorePath, StorePathKind


def unfinished_at(found: StorePath, env: Env) -> list[Unfinished]:
    """Returns the publications at a path that were broken off or are under way; at a file of a
    store, those that change it. What cannot be read counts as none."""
    if found.kind is StorePathKind.STORE:
        return find_unfinished([found.path], env)
    if found.root is None:
        return []
    path = env.real_path(found.path)
    return [each for each in find_unfinished([env.real_path(found.root)], env) if each.changes(path)]


def opened_path(path: StrPath | StorePath, env: Env) -> StorePath:
    """Returns the store or the CommitLog file, as `require_store` does. Warns, for the function
    that calls this, of publications that were broken off or are under way there, unless the path
    was recognised before: then the caller has looked for them."""
    found = require_store(path, env=env)
    if found is not path:
        warn_of_unfinished(unfinished_at(found, env), depth=2)
    return found
