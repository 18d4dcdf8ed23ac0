"""What shells get that ask which words may come next (`logdex completion`)."""

from __future__ import annotations

import os

from logdex.errors import LogdexError
from logdex.io.env import DEFAULT_ENV

COMPLETE_VARIABLE = "_LOGDEX_COMPLETE"
"""The shells' scripts set it when they ask."""


def complete_path(incomplete: str) -> list[str]:
    """Returns the paths that begin with `incomplete`, for a shell that asks. bash completes paths
    by itself where there is no answer."""
    if os.environ.get(COMPLETE_VARIABLE, "").endswith("bash"):
        return []
    folder, slash, begin = incomplete.rpartition("/")
    folder += slash
    try:
        names = [name for name in DEFAULT_ENV.list_dir(folder or ".") if name.startswith(begin)]
        return [f"{folder}{name}{'/' if DEFAULT_ENV.is_dir(folder + name) else ''}" for name in sorted(names)]
    except LogdexError:
        return []
