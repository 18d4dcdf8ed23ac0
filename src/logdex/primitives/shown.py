"""How public objects show themselves (what each is, where it is, how much there is, open or
closed), and how counts and times are written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def repr_of(shown: object, *facts: str, is_closed: bool | None = None) -> str:
    """Returns the `repr` of an object: its class and some facts. `is_closed` is None for what
    cannot be closed, or works on after it."""
    state = [] if is_closed is None else ["closed" if is_closed else "open"]
    return f"{type(shown).__name__}({', '.join([*facts, *state])})"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Returns a count with its word: ``1 file``, ``2,000 files``, ``1 gap is there``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def utc_time(time_ms: int) -> str:
    """Returns milliseconds since the epoch as ISO 8601 in UTC. Returns the number itself if it is
    outside the calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
