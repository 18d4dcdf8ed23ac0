"""How much memory Python takes for something."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable


def peak_bytes(act: Callable[[], object]) -> int:
    """The most that Python had allocated at once while `act` ran, beyond what it had before."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
