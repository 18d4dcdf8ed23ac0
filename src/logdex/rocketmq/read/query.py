"""Finding messages by key: what a person means, exactly, and what the engine would answer.

Source: ``docs/formats/index-file.md``; DefaultMessageStore.queryMessage, IndexService.queryOffset.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from logdex.errors import CorruptError, LogdexError, MissingFileError, UsageError
from logdex.io.env import Env
from logdex.layout.rocketmq import SYS_FLAG_ROLLBACK
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.index_file.index_file import ChainEnd, IndexEntry, IndexFile
from logdex.rocketmq.index_file.index_keys import TAG_INDEX_TYPE, key_hash_of
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.index_coverage import scan_range
from logdex.rocketmq.read.results import OffsetRange, QueryMessageResult
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from logdex.rocketmq.scan.scanner import LogEnd

TIME_MIN_MS, TIME_MAX_MS = -(1 << 63), (1 << 63) - 1
_TIME_DIFF_MAX_S = (1 << 31) - 1
_CHAIN_READS_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyQuestion:
    """Which messages are asked for: topic and key as stored bytes; store times (ms) from `begin_ms` to `end_ms`, both
    inclusive; `index_type` ``T`` asks for a tag instead of a key."""

    topic: bytes
    key: bytes
    begin_ms: int = TIME_MIN_MS
    end_ms: int = TIME_MAX_MS
    index_type: str | None = None

    def names(self, message: StoredMessage) -> bool:
        """Whether topic and key are the message's, byte for byte."""
        if message.topic != self.topic:
            return False
        if self.index_type == TAG_INDEX_TYPE:
            return message.tags == self.key
        return self.key == message.unique_key or self.key in message.keys

    def wants(self, message: StoredMessage) -> bool:
        """Whether a message that it names is of the time asked for, and not one that was rolled back."""
        in_time = self.begin_ms <= message.store_timestamp_ms <= self.end_ms
        return in_time and message.transaction_type != SYS_FLAG_ROLLBACK

    def key_hash(self) -> int:
        """The index hash."""
        return key_hash_of(self.topic, self.key, self.index_type)


@dataclass(frozen=True, slots=True)
class QuerySource:
    """What is asked: a log that ends at `valid_end`, its IndexFiles, and the ranges that those do not cover."""

    log: CommitLog
    index: IndexService
    missing: tuple[OffsetRange, ...]
    valid_end: int
    config: StoreConfig
    env: Env


def query_exact(
    source: QuerySource, question: KeyQuestion, *, max_num: int | None, cursor: int | None, scan_missing: bool
) -> QueryMessageResult:
    """Every message that the question names, newest first; at most `max_num`, from before offset `cursor` on."""
    if max_num is not None and max_num < 1:
        raise UsageError(f"max must be 1 or more, got {max_num}", hint="leave it out for all")
    below = TIME_MAX_MS if cursor is None else cursor
    problems: list[LogdexError] = [*source.index.unusable]
    scanned = _scan_missing(source, question, below, problems) if scan_missing else []
    found: list[tuple[int, StoredMessage]] = []
    collisions = expired = behind_end = 0
    more = False
    for offset in _merged(scanned, _index_offsets(source.index.files, question, below, problems)):
        if offset < source.log.min_offset:
            expired += 1
            continue
        if offset >= source.valid_end:
            behind_end += 1
            continue
        try:
            message = source.log.read_message(offset)
        except (CorruptError, MissingFileError) as error:
            problems.append(error)
            continue
        if not question.names(message):
            collisions += 1
        elif question.wants(message):
            if len(found) == max_num:
                more = True
                break
            found.append((offset, message))
    return QueryMessageResult(
        messages=tuple(message for _, message in found),
        phy_offsets=tuple(offset for offset, _ in found),
        complete=(scan_missing or not source.missing) and not problems,
        missing=source.missing,
        next_cursor=found[-1][0] if more else None,
        collisions=collisions,
        expired=expired,
        behind_end=behind_end,
        unreadable=tuple(problems),
        index_last_update_timestamp=_last_header(source.index)[0],
        index_last_update_phyoffset=_last_header(source.index)[1],
    )


def query_as_broker(source: QuerySource, question: KeyQuestion, *, max_num: int) -> QueryMessageResult:
    """Just what DefaultMessageStore.queryMessage hands out: by hash alone, whole seconds, at most 64, ascending,
    repeats kept; asks up to three times while it finds nothing that can be read. It does not know what it
    misses: `complete` is False."""
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
    """The message as the engine takes it out, no CRC checked; None where it finds none."""
    if not source.log.min_offset <= offset < source.valid_end:
        return None
    try:
        return source.log.read_message(offset, check_crc=False)
    except (CorruptError, MissingFileError):
        return None


def _last_header(index: IndexService) -> tuple[int, int]:
    if not index.files:
        return 0, 0
    header = index.files[-1].header
    return header.end_timestamp_ms, header.end_phy_offset


def _merged(first: list[int], second: Iterator[int]) -> Iterator[int]:
    """Two descending runs of offsets as one, each offset once."""
    seen: set[int] = set()
    for offset in heapq.merge(first, second, reverse=True):
        if offset not in seen:
            seen.add(offset)
            yield offset


def _index_offsets(
    files: list[IndexFile], question: KeyQuestion, below: int, problems: list[LogdexError]
) -> Iterator[int]:
    """Offsets below `below` of the entries that may be meant, descending. A file is read only when it is needed."""
    newest_first = sorted(files, key=lambda file: file.header.end_phy_offset, reverse=True)
    headers = [file.header for file in newest_first]
    in_order = all(new.begin_phy_offset >= old.end_phy_offset for new, old in pairwise(headers))
    for group in [[file] for file in newest_first] if in_order else [newest_first]:
        offsets = {offset for file in group for offset in _chain_offsets(file, question, problems) if offset < below}
        yield from sorted(offsets, reverse=True)


def _chain_offsets(file: IndexFile, question: KeyQuestion, problems: list[LogdexError]) -> list[int]:
    """Offsets of a file's entries that have the question's hash and may be of its time; reads one chain, all of it. A
    chain that does not end as it should, or leads into another one, is a problem: it may have lost entries."""
    key_hash = question.key_hash()
    found: list[int] = []
    strange: int | None = None
    chain = file.chain(key_hash)
    for _ in range(_CHAIN_READS_MAX):
        chain, count, strange = file.chain(key_hash), file.header.index_count, None
        found = []
        for index, entry in chain:
            if entry.key_hash == key_hash and _may_be_in_time(file, index, entry, question):
                found.append(entry.phy_offset)
            elif entry.key_hash % file.max_hash_slot_num != chain.slot and strange is None:
                strange = index
        if chain.end is not ChainEnd.BEYOND_COUNT:
            break
        file.reload()  # a broker has put more since the header was read, and the slot names what it put
        if file.header.index_count == count:
            break
    if strange is not None:
        problems.append(_damaged(file, file.entry_position(strange), "an entry of another chain", "key_hash"))
    elif chain.end is not ChainEnd.FIRST or chain.went_forward:
        why = "a link forward" if chain.end in (None, ChainEnd.FIRST) else chain.end.value
        problems.append(_damaged(file, file.slot_position(chain.slot), f"the chain of this slot has {why}", "slot"))
    return found


def _damaged(file: IndexFile, position: int, message: str, field: str) -> CorruptError:
    hint = "logdex rebuild derives the index anew"
    return CorruptError(message, path=file.path, position=position, field=field, hint=hint)


def _may_be_in_time(file: IndexFile, index: int, entry: IndexEntry, question: KeyQuestion) -> bool:
    """Whether an entry can be of a message of the time asked for. Its time is in whole seconds; a clock that went back
    leaves 0, the first entry of a rolled file counts from the file before: then only the message tells."""
    if index == 1 or not 0 < entry.time_diff_s < _TIME_DIFF_MAX_S:
        return True
    time_ms = file.entry_time_ms(entry)
    return time_ms <= question.end_ms and time_ms + 999 >= question.begin_ms


def _scan_missing(source: QuerySource, question: KeyQuestion, below: int, problems: list[LogdexError]) -> list[int]:
    """Offsets of the messages in the missing ranges that have the question's hash and time, descending."""
    from logdex.rocketmq.scan.scanner import LogEnd, Scanner

    dialect = replace(source.config.dialect, tags_in_index=True, prepared_in_index=True)
    scanner = Scanner(replace(source.config, dialect=dialect), env=source.env)
    key_hash, found = question.key_hash(), []
    for begin, end in source.missing:
        for part in scan_range(scanner, source.log, begin, min(end, below)):
            if isinstance(part, LogEnd):
                problems.append(part.error or _unreadable(part))
                continue
            columns, count = part.columns, part.count
            hits = np.flatnonzero(columns.key_hash[: part.key_count] == key_hash)
            rows = np.unique(np.searchsorted(columns.key_end[:count], hits, side="right"))
            times = columns.store_timestamp_ms[rows]
            rows = rows[(times >= question.begin_ms) & (times <= question.end_ms)]
            found += columns.position[rows].tolist()
    return sorted(set(found), reverse=True)


def _unreadable(end: LogEnd) -> CorruptError:
    return CorruptError(end.reason, path=end.path, position=end.position, hint="logdex verify lists all damage")
