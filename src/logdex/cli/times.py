"""Times on the command line: milliseconds since the epoch, or ISO 8601 (UTC if no zone is
given)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from logdex.errors import UsageError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TIME_MS_MAX = (1 << 63) - 1


def parse_time(text: str) -> int:
    """Returns milliseconds since the epoch; fractions of a millisecond are dropped. Raises
    `UsageError` if the text is not a time."""
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return min(max(int(text), -TIME_MS_MAX - 1), TIME_MS_MAX)
    try:
        if not re.match("[0-9]{4}-", text):  # Python also accepts a long row of digits as a time
            raise ValueError
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is no time", hint="give milliseconds since the epoch, or 2026-03-02T08:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)
