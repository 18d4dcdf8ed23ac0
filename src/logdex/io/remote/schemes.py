"""Which paths have a scheme, such as ``s3://bucket/store``, and so are on no disk of this
machine."""

from __future__ import annotations

import re

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")


def scheme_of(path: str) -> str | None:
    """Returns ``s3`` for ``s3://bucket/store``; None for a path of this machine."""
    found = _SCHEME.match(path) if "://" in path else None
    return None if found is None else found[1]


def root_of(path: str) -> str:
    """Returns ``s3://bucket`` for ``s3://bucket/store``."""
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
