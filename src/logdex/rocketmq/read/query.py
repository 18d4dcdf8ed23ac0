"""Finds messages by key: exactly, or as the engine would return them.

Source: ``docs/formats/index-file.md``; DefaultMessageStore.queryMessage, IndexService.queryOffset.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from logdex.errors import CorruptError, LogdexError, MissingFileError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.keys.key_offsets import index_offsets
from logdex.rocketmq.read.keys.key_question import TIME_MAX_MS, TIME_MIN_MS, KeyQuestion
from logdex.rocketmq.read.plan import PlanSource, plan_read
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.read.results import OffsetRange, QueryMessageResult
from logdex.rocketmq.read.split import ReadSplit
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from logdex.rocketmq.read.parts.part_reader import PartReader


@dataclass(frozen=True, slots=True)
class QuerySource:
    """What a query searches: a log that ends at `valid_end`, its IndexFiles, and the ranges that
    they do not cover."""

    log: CommitLog
    index: IndexService
    missing: tuple[OffsetRange, ...]
    valid_end: int
    config: StoreConfig
    env: Env
    store: str | None = None
    """The store's directory, whose ConsumeQueues a search of the log may use."""

    def is_missing(self, offset: int) -> bool:
        """Whether a physical offset lies in a missing range. Index entries for it may be stale."""
        return any(begin <= offset < end for begin, end in self.missing)


def query_exact(
    source: QuerySource, question: KeyQuestion, *, max_num: int | None, cursor: int | None, scan_missing: bool
) -> QueryMessageResult:
    """Returns every message that the question asks for, newest first: at most `max_num`, from
    before offset `cursor` on."""
    if max_num is not None and max_num < 1:
        raise UsageError(f"max must be 1 or more, got {max_num}", hint="leave it out for all")
    below = TIME_MAX_MS if cursor is None else cursor
    problems: list[LogdexError] = [*source.index.unusable]
    scanned = _scan_missing(source, question, below, problems) if scan_missing else []
    found: list[tuple[int, StoredMessage]] = []
    counts = _Counts()
    more = False
    offsets = index_offsets(source.index.files, question, below, problems)
    if scan_missing:
        offsets = (offset for offset in offsets if not source.is_missing(offset))
    for offset in _merged(scanned, offsets):
        message = _wanted_at(source, question, offset, counts, scan_missing=scan_missing)
        if message is not None:
            if len(found) == max_num:
                more = True
                break
            found.append((offset, message))
    problems += counts.problems
    return QueryMessageResult(
        messages=tuple(message for _, message in found),
        phy_offsets=tuple(offset for offset, _ in found),
        complete=(scan_missing or not source.missing) and not problems,
        missing=source.missing,
        next_cursor=found[-1][0] if more else None,
        collisions=counts.collisions,
        expired=counts.expired,
        behind_end=counts.behind_end,
        unreadable=tuple(problems),
        index_last_update_timestamp=_last_header(source.index)[0],
        index_last_update_phyoffset=_last_header(source.index)[1],
    )


@dataclass(slots=True)
class _Counts:
    """What the index entries of a query led to, beside its messages."""

    collisions: int = 0
    expired: int = 0
    behind_end: int = 0
    problems: list[LogdexError] = field(default_factory=list)


def _wanted_at(
    source: QuerySource, question: KeyQuestion, offset: int, counts: _Counts, *, scan_missing: bool
) -> StoredMessage | None:
    """Returns the message at a physical offset if the question asks for it. Entries in a missing
    range may be stale, so they are no problem."""
    if offset < source.log.min_offset:
        counts.expired += 1
        return None
    if offset >= source.valid_end:
        counts.behind_end += 1
        return None
    is_doubtful = not scan_missing and source.is_missing(offset)
    try:
        message = source.log.read_message(offset)
    except (CorruptError, MissingFileError) as error:
        counts.problems += [] if is_doubtful else [error]
        return None
    if question.names(message):
        return message if question.wants(message) else None
    if question.may_mean(message):
        counts.collisions += 1
    elif not is_doubtful:
        counts.problems.append(_contradiction(source.log, offset))
    return None


def query_as_broker(source: QuerySource, question: KeyQuestion, *, max_num: int) -> QueryMessageResult:
    """Returns exactly what DefaultMessageStore.queryMessage returns: by hash only, with times in
    whole seconds, at most 64 messages, ascending, with repeats. It tries up to three times while it
    finds no readable message. It does not know what is missing, so `complete` is False."""
    messages: list[tuple[int, StoredMessage]] = []
    last_ms, updated = question.end_ms, (0, 0)
    for _ in range(3):
        answer = source.index.query_offset(
            question.topic, question.key, max_num, question.begin_ms, last_ms, question.index_type
        )
        if not answer.phy_offsets:
            break
        updated = (answer.index_last_update_timestamp, answer.index_last_update_phyoffset)
        for place, offset in enumerate(sorted(answer.phy_offsets)):
            message = _handed_out(source, offset)
            if message is not None:
                messages.append((offset, message))
                last_ms = message.store_timestamp_ms if place == 0 else last_ms
        if messages or last_ms < question.begin_ms:
            break
    return QueryMessageResult(
        messages=tuple(message for _, message in messages),
        phy_offsets=tuple(offset for offset, _ in messages),
        complete=False,
        index_last_update_timestamp=updated[0],
        index_last_update_phyoffset=updated[1],
    )


def _handed_out(source: QuerySource, offset: int) -> StoredMessage | None:
    """Returns the message as the engine reads it, without checking its CRC; None if there is
    none."""
    if not source.log.min_offset <= offset < source.valid_end:
        return None
    try:
        return source.log.read_message(offset, check_crc=False)
    except (CorruptError, MissingFileError):
        return None


def _contradiction(log: CommitLog, offset: int) -> CorruptError:
    path, position = log.place_of(offset)
    message = "the index points to this message for a key that it does not have, so the index may lack keys too"
    return CorruptError(message, path=path, position=position, hint="logdex rebuild derives the index anew")


def _last_header(index: IndexService) -> tuple[int, int]:
    if not index.files:
        return 0, 0
    header = index.files[-1].header
    return header.end_timestamp_ms, header.end_phy_offset


def _merged(first: list[int], second: Iterator[int]) -> Iterator[int]:
    """Merges two descending runs of offsets into one, with each offset once."""
    seen: set[int] = set()
    for offset in heapq.merge(first, second, reverse=True):
        if offset not in seen:
            seen.add(offset)
            yield offset


def _scan_missing(source: QuerySource, question: KeyQuestion, below: int, problems: list[LogdexError]) -> list[int]:
    """Returns the offsets of the messages in the missing ranges that the question asks for,
    descending. If a file cannot be read further, the error is added to `problems` and the next file
    is searched. Missing files are skipped."""
    if not source.missing:
        return []
    from logdex.rocketmq.read.parts.part_reader import PartReader

    wanted = ReadFilter(
        topic=question.topic,
        key=question.key,
        begin_ms=None if question.begin_ms == TIME_MIN_MS else question.begin_ms,
        end_ms=None if question.end_ms == TIME_MAX_MS else question.end_ms,
        index_type=question.index_type,
    )
    plan_source = PlanSource(source.log, source.config, source.store, source.env)
    ends: list[LogEnd] = []
    found: list[int] = []
    reader = PartReader(source.store, source.config, wanted, source.env, bodies=False)
    for begin, end in source.missing:
        for file in source.log.files:
            low, high = max(begin, file.start_offset), min(end, below, file.end_offset)
            if low >= high:
                continue
            part = replace(wanted, begin_offset=low, end_offset=high)
            for split in plan_read(plan_source, part, known_offsets=(begin,)).splits:
                found += _offsets_of(split, reader, ends)
    reader.close()
    problems += [end.error or _unreadable(end) for end in ends]
    return sorted(found, reverse=True)


def _offsets_of(split: ReadSplit, reader: PartReader, ends: list[LogEnd]) -> Iterator[int]:
    """Yields the physical offsets of a split's messages. If it ends early, the reason is added to
    `ends`."""
    windows = split.windows(reader)
    while True:
        try:
            window, rows = next(windows)
        except StopIteration as stop:
            ends += [] if stop.value is None else [stop.value]
            return
        yield from window.columns.position[rows].tolist()


def _unreadable(end: LogEnd) -> CorruptError:
    return CorruptError(end.reason, path=end.path, position=end.position, hint="logdex verify lists all damage")
