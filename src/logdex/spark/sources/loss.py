"""What a source does where data that a query wants is gone: the option `failOnDataLoss`."""

from __future__ import annotations

from logdex.errors import UsageError
from logdex.spark.sources.table import ReadOptions

Range = tuple[int, int]

LOSS_HINT = "option failOnDataLoss=false reads what is left"


def require_no_loss(read: ReadOptions, what: str, hint: str = LOSS_HINT) -> str:
    """Returns a note that data is gone. Raises `UsageError` with failOnDataLoss."""
    if read.fail_on_data_loss:
        raise UsageError(what, hint=hint)
    return what


def require_offsets(read: ReadOptions, name: str, wanted: Range, there: Range) -> str | None:
    """Returns a note if a log does not have all of the offsets that are wanted of it, both as
    [begin, end). With failOnDataLoss that is an error."""
    (begin, end), (first, last) = wanted, there
    if begin < first:
        told = f"begins at offset {first}, and offset {begin} is wanted first"
        hint = f"say {first} or -2 (earliest) in startingOffsets"
    elif begin > last:
        told, hint = f"ends before offset {last}, and offset {begin} is wanted first", f"say {first} to {last}"
    elif end > last:
        told = f"ends before offset {last}, and offset {end - 1} is wanted last"
        hint = f"say {last} or -1 (latest) in endingOffsets"
    else:
        return None
    return require_no_loss(read, f"{name} {told}", f"{hint}; {LOSS_HINT}")
