"""How far whoever reads a log is behind its end: one rule for both formats, wherever it is told."""

from __future__ import annotations


def lag_of(offset: int | None, first: int, end: int) -> int:
    """Returns how many of the offsets up to `end` (exclusive) are left for a reader whose next
    offset is `offset`, None if it has not begun. Offsets before `first`, the first one that is
    still there, are nobody's lag: no reader can get them."""
    return max(end - max(offset or 0, first), 0)
