"""What a source does where data that a query wants is gone: the option `failOnDataLoss`."""

from __future__ import annotations

from logdex.errors import UsageError
from logdex.spark.sources.table import ReadOptions

Range = tuple[int, int]

LOSS_HINT = "option failOnDataLoss=false reads what is left"


def require_no_loss(read: ReadOptions, what: str) -> str:
    """Returns a note that data is gone. Raises `UsageError` with failOnDataLoss."""
    if read.fail_on_data_loss:
        raise UsageError(what, hint=LOSS_HINT)
    return what


def require_offsets(read: ReadOptions, name: str, wanted: Range, there: Range) -> str | None:
    """Returns a note if a log does not have all of the offsets that are wanted of it, both as
    [begin, end). With failOnDataLoss that is an error."""
    if there[0] <= wanted[0] <= there[1] and wanted[1] <= there[1]:
        return None
    what = f"{name}: offsets {wanted[0]} to {wanted[1]} are wanted, there are {there[0]} to {there[1]}"
    return require_no_loss(read, what)
