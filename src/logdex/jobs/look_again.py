"""The pause before something that does not agree is looked at again.

A broker that is running writes a message before its ConsumeQueue entry, an IndexFile's entry before
its count, and a transaction's marker before its index entry. So what is read beside it may be half
written, and is whole a moment later.
"""

from __future__ import annotations

import time

PAUSE_S = 0.02
"""The seconds that a reader gives a running broker to finish what it is writing."""

LOOKS_MAX = 20
"""How often a reader looks again at files that a running broker keeps removing or replacing."""


def pause(share: float = 1.0) -> None:
    """Waits `PAUSE_S` times `share`: less where there may be many looks, more where few."""
    time.sleep(PAUSE_S * share)
