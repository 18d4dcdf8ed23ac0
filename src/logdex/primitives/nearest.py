"""Which known name somebody may have meant who gave an unknown one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches


def nearest(name: str, by_lower: Mapping[str, str], all_names: Iterable[str]) -> str:
    """Returns a hint with the known name that is nearest to a wrong one, or with all names."""
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"did you mean {by_lower[found[0]]}?" if found else f"choose from {', '.join(all_names)}"
