"""The pause before something that does not agree is looked at again.

A broker that is running writes a message before its ConsumeQueue entry, and an IndexFile's entry
before its count. So what is read beside it may be half written, and is whole a moment later.
"""

from __future__ import annotations

import time

PAUSE_S = 0.02
"""The seconds that a reader gives a running broker to finish what it is writing."""


def pause(share: float = 1.0) -> None:
    """Waits `PAUSE_S`, or a share of it where there may be many looks."""
    time.sleep(PAUSE_S * share)
