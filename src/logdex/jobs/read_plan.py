"""What the read plans of all formats have in common: splits, and what a filter left out.

A plan is made from names, headers and indexes, and no message is read for it. Its splits can be
pickled, sent to other processes and read there. Their rows, one split after the other, are those of
the filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar


class Split(Protocol):
    """A part of a plan that can be read by itself."""

    @property
    def size_bytes(self) -> int:
        """The bytes of the log that the split covers."""


AnySplit = TypeVar("AnySplit", bound=Split)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadPlanBase(Generic[AnySplit]):
    """A plan: `splits` in the order of the log.

    `total_files` and `total_bytes` are those of the whole log. `pruned_files` counts the files that
    have no split, `pruned_bytes` the bytes that are in none.
    """

    splits: tuple[AnySplit, ...]
    total_files: int
    total_bytes: int
    pruned_files: int
    pruned_bytes: int

    @property
    def size_bytes(self) -> int:
        """The bytes that the splits cover."""
        return sum(split.size_bytes for split in self.splits)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.splits)} splits of {self.size_bytes} bytes; "
            f"pruned: {self.pruned_files} of {self.total_files} files, "
            f"{self.pruned_bytes} of {self.total_bytes} bytes)"
        )
