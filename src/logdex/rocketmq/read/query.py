"""Finds messages by key: exactly, or as the engine would return them.

Source: ``docs/formats/index-file.md``; DefaultMessageStore.queryMessage, IndexService.queryOffset.
"""

from __future__ import annotations

from contextlib import closing

from logdex import limits
from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.primitives.wrong_questions import require_most
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.keys.key_question import TIME_MIN_MS, KeyQuestion
from logdex.rocketmq.read.keys.key_search import KeySearch, QuerySource
from logdex.rocketmq.read.keys.quick_query import query_quick
from logdex.rocketmq.read.results import QueryMessageResult


def query_exact(
    source: QuerySource, question: KeyQuestion, cursor: int | None, *, scan_missing: bool, max_num: int | None
) -> QueryMessageResult:
    """Returns the messages of a `KeySearch`, newest first: all of them, or the first `max_num`."""
    require_most(max=max_num)
    usual = None if cursor is not None else query_quick(source, question, max_num)
    if usual is not None:
        return usual
    search = KeySearch(source, question, cursor, scan_missing=scan_missing)
    found: list[tuple[int, StoredMessage]] = []
    more = False
    with closing(search.items()) as items:
        for item in items:
            if len(found) == max_num:
                more = True
                break
            found.append(item)
    return QueryMessageResult(
        messages=tuple(message for _, message in found),
        phy_offsets=tuple(offset for offset, _ in found),
        complete=search.is_complete,
        missing=source.missing,
        next_cursor=found[-1][0] if more else None,
        collisions=search.collisions,
        expired=search.expired,
        behind_end=search.behind_end,
        unreadable=tuple(search.problems),
        index_last_update_timestamp=_last_header(source.index_service)[0],
        index_last_update_phyoffset=_last_header(source.index_service)[1],
    )


def query_as_broker(source: QuerySource, question: KeyQuestion, *, max_num: int | None) -> QueryMessageResult:
    """Returns exactly what DefaultMessageStore.queryMessage returns: by hash only, with times in
    whole seconds, at most 64 messages, ascending, with repeats. It tries up to three times while it
    finds no readable message. It does not know what is missing, so `complete` is False."""
    if source.log.is_one_file:
        raise UsageError("one CommitLog file has no index for a broker to ask", hint="leave out broker_semantics")
    max_num = limits.QUERY_MAX_NUM if max_num is None else max_num
    begin_ms = 0 if question.begin_ms == TIME_MIN_MS else question.begin_ms
    messages: list[tuple[int, StoredMessage]] = []
    last_ms, updated = question.end_ms, (0, 0)
    for _ in range(3):
        answer = source.index_service.query_offset(
            question.topic, question.key, max_num, begin_ms, last_ms, question.index_type
        )
        if not answer.phy_offsets:
            break
        updated = (answer.index_last_update_timestamp, answer.index_last_update_phyoffset)
        for place, offset in enumerate(sorted(answer.phy_offsets)):
            message = _handed_out(source, offset)
            if message is not None:
                messages.append((offset, message))
                last_ms = message.store_timestamp_ms if place == 0 else last_ms
        if messages or last_ms < begin_ms:
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


def _last_header(index: IndexService) -> tuple[int, int]:
    if not index.files:
        return 0, 0
    header = index.files[-1].header
    return header.end_timestamp_ms, header.end_phy_offset
