"""Which records a read wants."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from logdex.kafka.read.log_read import check_isolation

OFFSET_MAX = (1 << 63) - 1


class FilterOptions(TypedDict, total=False):
    """`ReadFilter`'s fields, as keyword arguments."""

    begin_ms: int | None
    end_ms: int | None
    offset: int | None
    end_offset: int | None
    key: bytes | None
    control: bool
    isolation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFilter:
    """Which records are wanted; None: no bound.

    Times are in milliseconds, both ends included; offsets of each partition in [`offset`,
    `end_offset`). `key`: records with just this key. `control`: control records too.

    `isolation`: None for all that lies in the files; ``read_uncommitted`` for what a consumer sees,
    who begins at the log start offset; ``read_committed`` without the records of aborted
    transactions, and without those at and above the last stable offset.
    """

    begin_ms: int | None = None
    end_ms: int | None = None
    offset: int | None = None
    end_offset: int | None = None
    key: bytes | None = None
    control: bool = False
    isolation: str | None = None

    def __post_init__(self) -> None:
        """Raises `UsageError` for an unknown isolation."""
        if self.isolation is not None:
            check_isolation(self.isolation)
