"""Removes records from a log: retention, `delete_records`, truncation.

Offsets are durable before files are removed, and files are removed one after the other. So a crash
in between leaves a log that is longer than intended, but never one with a gap. Source: Kafka's
UnifiedLog.deleteOldSegments, truncateTo, truncateFullyAndStartAt, maybeIncrementLogStartOffset.
"""

from __future__ import annotations

from collections.abc import Callable

from logdex.errors import OffsetOutOfRangeError, UsageError
from logdex.kafka.log.core import LogCore
from logdex.kafka.segment.log_segment import LogSegment
from logdex.primitives.wrong_questions import require_given, require_whole


def delete_records(core: LogCore, before: int) -> int:
    """Moves the log start offset to `before` (-1: the high watermark), and removes the segments
    below it.

    Returns the log start offset.
    """
    require_given(before=before)
    with core.lock:
        core.group_commit.wait_until_idle()
        core.require_usable()
        high_watermark = core.high_watermark
        start = high_watermark if before == -1 else before
        if not 0 <= start <= high_watermark:
            raise OffsetOutOfRangeError(
                before, path=core.path, log_start_offset=core.log_start_offset, log_end_offset=high_watermark
            )
        with core.restructuring():
            if start > core.log_start_offset:
                _move_start(core, start)
            _delete_below_start(core)
        return core.log_start_offset


def apply_retention(core: LogCore, now_ms: int) -> list[int]:
    """Removes segments beyond retention at `now_ms`, and expired producers; returns the base
    offsets."""
    with core.restructuring():
        core.producers.states.remove_expired(now_ms)
        gone = _delete_below_start(core)
        if "delete" in core.config.cleanup_policy:
            gone += _delete_by_size(core)
            gone += _delete_by_age(core, now_ms)
        return gone


def _move_start(core: LogCore, offset: int) -> None:
    core.set_log_start(offset)
    if core.epochs.truncate_from_start(offset):
        core.save_epochs()


def _delete_below_start(core: LogCore) -> list[int]:
    def is_below(_: LogSegment, following: LogSegment | None) -> bool:
        return following is not None and following.base_offset <= core.log_start_offset

    return _delete_old(core, is_below)


def _delete_by_size(core: LogCore) -> list[int]:
    bound = core.config.retention_bytes
    excess = core.segments.size_bytes - bound
    if bound < 0 or excess < 0:
        return []

    def is_excess(segment: LogSegment, _: LogSegment | None) -> bool:
        nonlocal excess
        if excess - segment.size_bytes < 0:
            return False
        excess -= segment.size_bytes
        return True

    return _delete_old(core, is_excess)


def _delete_by_age(core: LogCore, now_ms: int) -> list[int]:
    bound = core.config.retention_ms
    if bound < 0:
        return []
    return _delete_old(core, lambda segment, _: now_ms - segment.largest_timestamp_ms > bound)


def _delete_old(core: LogCore, is_old: Callable[[LogSegment, LogSegment | None], bool]) -> list[int]:
    """Removes the first segments while `is_old` holds and they are below the high watermark.

    Returns their base offsets. An active segment with records is removed too, after a roll.
    """
    segments = core.segments.as_tuple
    doomed: list[LogSegment] = []
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = core.next_offset if following is None else following.base_offset
        is_empty_last = following is None and segment.size_bytes == 0
        if is_empty_last or core.high_watermark < end or not is_old(segment, following):
            break
        doomed.append(segment)
    if not doomed:
        return []
    if len(doomed) == len(segments):
        core.roll()
    first_kept = core.segments.as_tuple[len(doomed)]
    if first_kept.base_offset > core.log_start_offset:
        _move_start(core, first_kept.base_offset)
    core.remove_segments(doomed)
    return [segment.base_offset for segment in doomed]


def truncate_to(core: LogCore, offset: int) -> bool:
    """Truncates the log to the end offset `offset`, durably. Returns False if it ends there or
    before.

    A batch that holds `offset` and begins before it is removed as a whole. The log ends where its
    last batch ends, also if `offset` lies in a gap behind that. (A broker's log ends at `offset`
    until it is opened again, and only then moves back.)
    """
    require_given(offset=offset)
    if offset < 0:
        raise UsageError(f"cannot truncate to {offset}", hint="use 0 or more")
    with core.restructuring():
        if offset >= core.next_offset:
            if core.epochs.truncate_from_end(core.next_offset):
                core.save_epochs()
            return False
        if core.segments.first.base_offset > offset:
            _start_at(core, offset)
            return True
        _forget_from(core, offset)
        core.remove_segments(each for each in reversed(core.segments.as_tuple) if each.base_offset > offset)
        active = core.segments.active
        active.truncate_to(offset)
        active.flush()
        end = active.read_next_offset()
        if end < min(offset, core.log_start_offset):
            _start_at(core, min(offset, core.log_start_offset))
            return True
        if end < core.log_start_offset:
            core.set_log_start(end)
        _forget_from(core, end)
        if core.epochs.truncate_from_end(end):
            core.save_epochs()
        core.producers.rebuild(core.segments, log_start_offset=core.log_start_offset, end_offset=end)
        core.end_went_back_to(end)
        return True


def _forget_from(core: LogCore, offset: int) -> None:
    """Moves the checkpoints back to `offset`, and removes the producer snapshots behind it."""
    core.set_recovery_point(min(core.recovery_point, offset))
    core.home.truncate_cleaner_point(offset)
    if core.producers.remove_where(lambda at: at > offset):
        core.env.sync_dir(core.path)


def truncate_fully_and_start_at(core: LogCore, offset: int, log_start_offset: int | None = None) -> None:
    """Removes everything; the next record gets `offset`. `log_start_offset` is `offset` by
    default."""
    start = offset if log_start_offset is None else log_start_offset
    require_whole(offset=offset, log_start_offset=start)
    if not 0 <= start <= offset < 1 << 63:
        raise UsageError(f"cannot start at {offset} with the log start offset {start}")
    with core.restructuring():
        _start_at(core, offset)
        if start != offset:
            core.set_log_start(start)


def _start_at(core: LogCore, offset: int) -> None:
    core.set_recovery_point(min(core.recovery_point, offset))
    core.home.truncate_cleaner_point(offset)
    core.producers.start_at(offset)
    core.env.sync_dir(core.path)
    # Set before the segments are removed, because it is the start of a log without segments. Never
    # moved back, so that deleted records stay deleted.
    core.set_log_start(max(offset, core.log_start_offset))
    core.remove_segments(reversed(core.segments.as_tuple))
    core.epochs.clear()  # after the segments: for any that a crash leaves, no load would derive the epochs again
    core.save_epochs()
    core.set_log_start(offset)
    core.segments.add(core.open_segment(offset))
    core.end_went_back_to(offset)
