"""What a source does where data that a query wants is gone: the option `failOnDataLoss`."""

from __future__ import annotations

from logdex.errors import UsageError
from logdex.spark.sources.table import ReadOptions

LOSS_HINT = "option failOnDataLoss=false reads what is left"


def require_no_loss(read: ReadOptions, what: str) -> str:
    """Returns a note that data is gone. Raises `UsageError` with failOnDataLoss."""
    if read.fail_on_data_loss:
        raise UsageError(what, hint=LOSS_HINT)
    return what
