"""The pause before something that does not agree is looked at again.

A broker that is running writes a message before its ConsumeQueue entry, an IndexFile's entry before
its count, and a transaction's marker before its index entry. So what is read beside it may be half
written, and is whole a moment later.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logdex.jobs.reports import SkippedBytes

PAUSE_S = 0.02
"""The seconds that a reader gives a running broker to finish what it is writing."""

LOOKS_MAX = 20
"""How often a reader looks again at files that a running broker keeps removing or replacing."""


def pause(share: float = 1.0) -> None:
    """Waits `PAUSE_S` times `share`: less where there may be many looks, more where few."""
    time.sleep(PAUSE_S * share)


def removed_meanwhile(paths: Iterable[str]) -> list[str]:
    """Returns what to tell of files that a running broker has removed before they were read."""
    return [f"{path}: removed by the broker meanwhile" for path in paths]


class Looks:
    """Counts the looks of a recovery at files that somebody may be writing, and says which one is
    the last."""

    def __init__(self, *, is_beside: bool) -> None:
        """With `is_beside`, somebody is writing."""
        self._is_beside = is_beside
        self._count = 0
        self._lost: set[object] | None = None

    def settles(
        self, skipped: Iterable[SkippedBytes], losses: Iterable[str] = (), *, has_changed: bool = False
    ) -> bool:
        """Whether a look that came to its end is the last one: nothing is lost, or nobody is
        writing, as far as is known and `has_changed` tells, or the look before has lost the
        same."""
        lost: set[object] = {*losses, *((each.path, each.start) for each in skipped if each.is_loss)}
        is_same, self._lost = lost == self._lost, lost
        return self.fails() or not lost or not (self._is_beside or has_changed) or is_same

    def fails(self) -> bool:
        """Whether a look that was broken off, because files went away, is the last one."""
        self._count += 1
        return self._count >= LOOKS_MAX
