"""Where files are kept that Logdex can make again, such as compiled code."""

from __future__ import annotations

import os


def folder() -> str:
    """Returns ``~/.cache/logdex``, or the same below XDG_CACHE_HOME. It may not be there."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "logdex")
