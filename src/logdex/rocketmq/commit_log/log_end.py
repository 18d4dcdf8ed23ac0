"""Why and where a CommitLog ends."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from logdex.errors import CorruptError


class EndKind(enum.Enum):
    """Why a log ends where it does."""

    END_OF_FILES = "end of files"
    ZEROS = "zeros"
    HOLE = "hole"
    TORN = "torn"
    CORRUPT = "corrupt"
    MISSING_FILE = "missing file"


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the valid log ends: `offset` is the physical offset, `path` and `position` the file and the byte in it."""

    kind: EndKind
    offset: int
    path: str
    position: int
    reason: str
    error: CorruptError | None = None

    @property
    def is_clean(self) -> bool:
        """Whether nothing but unwritten bytes follow, as far as the end itself tells."""
        return self.kind in (EndKind.END_OF_FILES, EndKind.ZEROS)
