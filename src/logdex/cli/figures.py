"""The figures of `logdex bench`, and how they are measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

LOOK_UPS = 2_000
SCAN_SECONDS_MAX = 15.0
REBUILD_BYTES_MAX = 16 << 30
"""A larger log is only scanned and used for look-ups, so that the command takes a minute at
most."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: the number of messages or look-ups, the bytes (0 if not counted), and the
    elapsed time."""

    name: str
    count: int
    size_bytes: int
    seconds: float

    def to_json(self) -> dict[str, object]:
        """Returns the object of the JSON line."""
        return asdict(self) | {
            "per_second": round(self.count / self.seconds, 1),
            "bytes_per_second": round(self.size_bytes / self.seconds, 1) if self.size_bytes else None,
        }


def better_of_two(run: Callable[[], Figure]) -> Figure:
    """Returns the faster of two runs."""
    return min(run(), run(), key=lambda figure: figure.seconds / max(figure.count, 1))
