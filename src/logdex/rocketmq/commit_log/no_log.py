"""Why a store has no CommitLog."""

from __future__ import annotations

import posixpath

from logdex.errors import LogdexError, MissingFileError
from logdex.io.env import Env
from logdex.jobs.journal import find_unfinished


def no_log(directory: str, env: Env) -> LogdexError:
    """Returns the error for a store without the directory of its log. A recovery in place that was
    killed may have set it aside."""
    for unfinished in find_unfinished([posixpath.dirname(directory) or "."], env):
        return unfinished.error
    hint = "a store has its log in commitlog/, or where storePathCommitLog says: --broker-conf FILE"
    return MissingFileError("no such directory", path=directory, hint=hint)
