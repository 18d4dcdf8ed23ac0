"""Finds the part of a log that can hold messages of some store times, if store times go back by no
more than a stated slack.

With that limit, the time of one message bounds those of all others: later messages are at most the
slack older, earlier ones at most the slack newer. Without it, nothing can be excluded.
"""

from __future__ import annotations

from collections.abc import Sequence

from logdex.errors import LogdexError
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.read.parts.boundaries import Boundaries

NEAR_BYTES = 1 << 20
"""The search within a file ends at this distance in bytes."""


def offsets_of_times(
    log: CommitLog,
    files: Sequence[CommitLogFile],
    boundaries: Boundaries,
    times: tuple[int | None, int | None],
    slack_ms: int,
) -> tuple[int | None, int | None]:
    """Returns the physical offsets [begin, end) outside of which no message has a store time in
    milliseconds from `times[0]` to `times[1]`, both inclusive; None for no bound. Messages begin at
    both. If the first messages of files violate the limit, nothing is excluded."""
    known = _first_times(log, files)
    highest = None
    for _, time_ms in known:
        if highest is not None and highest - time_ms > slack_ms:
            return None, None
        highest = time_ms if highest is None else max(highest, time_ms)
    end_of_files = files[-1].end_offset if files else 0
    begin = end = None
    if times[0] is not None:
        begin = _last_before(known, times[0] - slack_ms, end_of_files, boundaries)
    if times[1] is not None:
        end = _first_behind(known, times[1] + slack_ms, boundaries)
    return begin, end


def _first_times(log: CommitLog, files: Sequence[CommitLogFile]) -> list[tuple[int, int]]:
    """Returns (physical offset, store time) of each file's first message that can be read."""
    found = []
    for file in files:
        try:
            message = log.read_message(file.start_offset, check_crc=False)
        except LogdexError:
            continue
        found.append((file.start_offset, message.store_timestamp_ms))
    return found


def _last_before(known: list[tuple[int, int]], time_ms: int, end: int, boundaries: Boundaries) -> int | None:
    """Returns the last place found whose message is older than `time_ms`. Everything before it is
    too old."""
    older = [offset for offset, at_ms in known if at_ms < time_ms]
    if not older:
        return None
    low = older[-1]
    high = next((offset for offset, _ in known if offset > low), end)
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        found = boundaries.at_or_behind(middle, high)
        if found is not None and found[1].store_timestamp_ms < time_ms:
            low = found[0]
        else:
            high = middle
    return low


def _first_behind(known: list[tuple[int, int]], time_ms: int, boundaries: Boundaries) -> int | None:
    """Returns the first place found whose message is newer than `time_ms`. Everything after it is
    too new."""
    younger = [offset for offset, at_ms in known if at_ms > time_ms]
    if not younger:
        return None
    high = younger[0]
    low = max((offset for offset, _ in known if offset < high), default=high)
    while high - low > NEAR_BYTES:
        middle = (low + high) // 2
        found = boundaries.at_or_behind(middle, high)
        if found is not None and found[1].store_timestamp_ms > time_ms:
            high = found[0]
        else:
            low = middle
    return high
