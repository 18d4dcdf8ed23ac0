"""The time zone in which IndexFiles are named.

A broker names an IndexFile after its local time, and finds the newest file by its name. No file of
a store states the zone. Source: ``docs/formats/index-file.md``; IndexService, UtilAll.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from logdex.errors import UsageError

_OFFSET = re.compile(r"(?:UTC)?([+-])(\d\d):?(\d\d)")
_HOUR_MS, _MINUTE_MS = 3_600_000, 60_000
OFFSET_MS_MAX = 14 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class TimeZone:
    """A time zone in words and as Python's; None is the zone of this machine."""

    text: str
    zone: tzinfo | None

    def local_ms(self, timestamp_ms: int) -> int:
        """Returns the local time as milliseconds since 1970 of a clock that shows it."""
        if self.zone is None:
            return timestamp_ms + time.localtime(timestamp_ms // 1000).tm_gmtoff * 1000
        offset = datetime.fromtimestamp(timestamp_ms // 1000, self.zone).utcoffset() or timedelta()
        return timestamp_ms + offset // timedelta(milliseconds=1)


UTC_ZONE = TimeZone("UTC", UTC)


def machine_zone() -> TimeZone:
    """Returns the time zone of this machine."""
    return TimeZone(offset_text(time.localtime().tm_gmtoff * 1000), None)


def parse_time_zone(text: str) -> TimeZone:
    """Returns the time zone of a text: ``UTC``, ``local``, an offset such as ``+08:00``, or a name
    such as ``America/Lima``. Raises `UsageError` for others."""
    if text == "local":
        return machine_zone()
    if text in ("UTC", "Z"):
        return UTC_ZONE
    found = _OFFSET.fullmatch(text)
    if found is not None:
        sign, hours, minutes = found.groups()
        offset_ms = (int(hours) * _HOUR_MS + int(minutes) * _MINUTE_MS) * (-1 if sign == "-" else 1)
        if abs(offset_ms) <= OFFSET_MS_MAX and int(minutes) < 60:
            return fixed_zone(offset_ms)
    else:
        try:
            return TimeZone(text, ZoneInfo(text))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # an unknown name, or one that cannot be a name
    raise UsageError(f"time zone {text[:40]!r} is not known", hint="say UTC, local, +08:00 or a name: America/Lima")


def fixed_zone(offset_ms: int) -> TimeZone:
    """Returns the zone whose clocks are `offset_ms` ahead of UTC."""
    return TimeZone(offset_text(offset_ms), timezone(timedelta(milliseconds=offset_ms)))


def offset_text(offset_ms: int) -> str:
    """Returns an offset from UTC as text: ``+08:00``, or ``UTC`` for none."""
    hours, rest_ms = divmod(abs(offset_ms), _HOUR_MS)
    return f"{'-' if offset_ms < 0 else '+'}{hours:02d}:{rest_ms // _MINUTE_MS:02d}" if offset_ms else "UTC"
