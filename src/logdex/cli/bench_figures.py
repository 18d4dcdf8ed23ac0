"""Figures of `logdex bench`: measured twice, printed as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from logdex.cli.output import emit, human_count, human_size, table

LOOK_UPS = 2_000
SCAN_SECONDS_MAX = 15.0
REBUILD_BYTES_MAX = 16 << 30
"""A larger log is scanned and looked up only, so that this stays a matter of a minute."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: how many messages or look-ups, how many bytes (0: not counted), wall time."""

    name: str
    count: int
    size_bytes: int
    seconds: float

    def to_json(self) -> dict[str, object]:
        """The JSON line."""
        return asdict(self) | {
            "per_second": round(self.count / self.seconds, 1),
            "bytes_per_second": round(self.size_bytes / self.seconds, 1) if self.size_bytes else None,
        }


def better_of_two(run: Callable[[], Figure]) -> Figure:
    """The faster of two runs."""
    return min(run(), run(), key=lambda figure: figure.seconds / max(figure.count, 1))


def print_figures(figures: list[Figure]) -> None:
    """A line each."""
    emit("On this machine, in one process, the better of two runs each:")
    rows = [
        (
            figure.name,
            human_count(figure.count, "message" if figure.size_bytes else "look-up"),
            f"{figure.seconds:.3f} s",
            f"{figure.count / figure.seconds:,.0f}/s",
            f"{human_size(int(figure.size_bytes / figure.seconds))}/s" if figure.size_bytes else "",
        )
        for figure in figures
    ]
    table(rows, right=(1, 2, 3, 4))
