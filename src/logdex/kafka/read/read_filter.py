"""The filter of a read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

from logdex.kafka.read.log_read import check_isolation
from logdex.primitives.text import to_bytes
from logdex.primitives.wrong_questions import require_bool, require_counts, require_names, require_order, require_times

OFFSET_MAX = (1 << 63) - 1


class FilterOptions(TypedDict, total=False):
    """The fields of `ReadFilter` as keyword arguments."""

    begin_ms: int | None
    end_ms: int | None
    offset: int | None
    end_offset: int | None
    key: str | bytes | None
    control: bool
    isolation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFilter:
    """The records that a read returns. None means no bound.

    Times are in milliseconds, both inclusive. Offsets are in [`offset`, `end_offset`) of each
    partition. With `key`, only records with exactly this key are returned. With `control`, control
    records are included.

    `isolation` is None for everything in the files. ``read_uncommitted`` returns what a consumer
    sees, which begins at the log start offset. ``read_committed`` also leaves out the records of
    aborted transactions and those at and above the last stable offset.
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


def filter_of(options: FilterOptions, *others: str) -> ReadFilter:
    """Returns the filter that a caller asks for. `others` are the names of further arguments that
    it may have meant. Raises `UsageError` for times in the wrong order, for numbers that no record
    has, and for unknown names."""
    require_names("option of scan", options, (*others, *FilterOptions.__annotations__))
    key = options.get("key")
    given: dict[str, Any] = {**options, "key": None if key is None else to_bytes(key)}
    wanted = ReadFilter(**given)
    require_bool("control", wanted.control)
    require_times(wanted.begin_ms, wanted.end_ms)
    require_counts(offset=wanted.offset, end_offset=wanted.end_offset)
    require_order(offset=wanted.offset, end_offset=wanted.end_offset)
    return wanted
