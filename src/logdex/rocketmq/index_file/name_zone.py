"""Resolves the time zone in which a store's IndexFiles are named: from a flag, else from the names
of the files that are there, else the machine's.

A file's name is the time at which the broker created it, which is soon after the store time of its
first entry, except where a log was dispatched anew. So names and headers show the zone's offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.layout.rocketmq import INDEX_HEADER
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.index_file.index_paths import list_index_files
from logdex.rocketmq.settings.time_zone import (
    OFFSET_MS_MAX,
    UTC_ZONE,
    TimeZone,
    fixed_zone,
    machine_zone,
    parse_time_zone,
)

_FILES_READ = 16
_QUARTER_MS = 15 * 60_000
_LATE_MS_MAX = 60_000
"""How much later than its first message's store time a file is created."""


@dataclass(frozen=True, slots=True)
class NameZone:
    """The time zone for names, and how it is known."""

    zone: TimeZone
    reason: str

    @property
    def text(self) -> str:
        """The zone and the reason, in words."""
        return f"{self.zone.text}, {self.reason}"


def resolve_name_zone(directory: str, given: str | None, *, env: Env) -> NameZone:
    """Returns the time zone for the names of new IndexFiles in a directory. `given` is the text of
    a flag. Raises `UsageError` if it is not a time zone."""
    if given is not None:
        return NameZone(parse_time_zone(given), "as given")
    seen = _observed(directory, env)
    machine = machine_zone()
    if seen and all(machine.local_ms(begin_ms) - begin_ms == offset_ms for begin_ms, offset_ms in seen):
        return NameZone(UTC_ZONE if machine.text == "UTC" else machine, "as the IndexFiles are named")
    if seen:
        # The newest, because of summer time; one that two files show, because a file may be late.
        offsets = [offset_ms for _, offset_ms in seen]
        newest = next((offset_ms for offset_ms in offsets if offsets.count(offset_ms) > 1), offsets[0])
        return NameZone(fixed_zone(newest), "as the IndexFiles are named")
    return NameZone(machine, "as on this machine (--time-zone states another)")


def _observed(directory: str, env: Env) -> list[tuple[int, int]]:
    """Returns (begin timestamp, offset from UTC) of the newest files whose name shows an offset.

    A name that is the UTC time to the millisecond is no evidence: Logdex once named files so.
    """
    found = []
    for path in islice(reversed(list_index_files(directory, env)), _FILES_READ):
        named_ms = _time_of(path.rpartition("/")[2])
        try:
            with env.open_read(path) as file:
                header = IndexHeader.unpack(file.read_at(0, INDEX_HEADER.size_bytes), path=path)
        except StoreError:
            continue  # damaged or unreadable: verify reports it
        if named_ms is None or not header.entry_count:
            continue
        ahead_ms = named_ms - header.begin_timestamp_ms
        offset_ms = ahead_ms // _QUARTER_MS * _QUARTER_MS
        if ahead_ms and abs(offset_ms) <= OFFSET_MS_MAX and ahead_ms - offset_ms <= _LATE_MS_MAX:
            found.append((header.begin_timestamp_ms, offset_ms))
    return found


def _time_of(name: str) -> int | None:
    """Returns the time in a name as milliseconds since 1970 of a clock that shows it; None if it is
    no time."""
    try:
        moment = datetime.strptime(name[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(moment.timestamp()) * 1000 + int(name[14:17])
