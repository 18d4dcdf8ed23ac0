"""The short way of a usual query by key: what `query_exact` does, without most of the objects and
calls between its steps, which take longer than the work itself.

A query is usual if the IndexFiles do not overlap, the chains are short and whole, and each entry
with the key's hash points to a message with the key. `query_exact` answers all others. A test holds
that both return the same.
"""

from __future__ import annotations

from logdex.errors import LogdexError
from logdex.rocketmq.commit_log.commit_log import AHEAD_BYTES
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.keys.key_question import KeyQuestion
from logdex.rocketmq.read.keys.key_search import QuerySource
from logdex.rocketmq.read.results import QueryMessageResult

CHAIN_MAX = 32
"""The largest number of entries of a short chain."""
_UNUSUAL = -1


def query_quick(source: QuerySource, question: KeyQuestion, max_num: int | None) -> QueryMessageResult | None:
    """Returns the messages that a question asks for, newest first: all of them, or the first
    `max_num`. Returns None if the query is not usual."""
    files, index = source.index_service.files, source.index_service
    if not files or index.unusable or source.missing or not source.ends_cleanly or source.log.is_one_file:
        return None
    if not question.is_for_any_time or (max_num is not None and max_num < 1):
        return None
    messages: list[StoredMessage] = []
    offsets: list[int] = []
    most = 1 << 62 if max_num is None else max_num + 1
    key_hash, newest = question.key_hash(), files[-1].header
    begin, last = newest.end_phy_offset, source.valid_end
    try:
        for file in reversed(files):
            header = file.header
            chain = _short_chain(file, header, key_hash) if header.end_phy_offset <= begin else None
            if chain is None:
                return None
            if chain:
                last = _take(source, question, chain, last, most, messages, offsets)
                if last == _UNUSUAL:
                    return None
                if len(messages) == most:
                    break
            begin = min(header.begin_phy_offset, header.end_phy_offset)
    except LogdexError:
        return None
    next_cursor = offsets[-2] if len(messages) == most else None
    updated = newest.end_timestamp_ms, newest.end_phy_offset
    return QueryMessageResult(
        tuple(messages[:max_num]), tuple(offsets[:max_num]), True, (), next_cursor, 0, 0, 0, (), *updated
    )


def _take(
    source: QuerySource,
    question: KeyQuestion,
    chain: list[int],
    last: int,
    most: int,
    messages: list[StoredMessage],
    offsets: list[int],
) -> int:
    """Adds the messages that the entries of a chain point to, up to `most` in all. `last` is the
    offset of the message before them. Returns that of the last one."""
    log, valid_end = source.log, source.valid_end
    min_offset = log.min_offset
    for offset in chain:
        if offset > last or not min_offset <= offset < valid_end:
            return _UNUSUAL
        if offset == last:
            continue  # a message may have a key twice
        message, last = log.read_message(offset, ahead_bytes=AHEAD_BYTES), offset
        if not question.names(message):
            return _UNUSUAL
        if question.wants(message):
            messages.append(message)
            offsets.append(offset)
            if len(messages) == most:
                break
    return last


def _short_chain(file: IndexFile, header: IndexHeader, key_hash: int) -> list[int] | None:
    """Returns the physical offsets of a file's entries with a hash, newest first; None if the chain
    of its slot is long or not whole."""
    found: list[int] = []
    if header.index_count <= 1:
        return found
    slot_num = file.max_hash_slot_num
    slot = key_hash % slot_num
    index, before = file.read_slot(slot), min(header.index_count + 1, file.max_index_num)
    for _ in range(CHAIN_MAX):
        if not 0 < index < before:
            return found if index == 0 else None
        entry_hash, offset, _, previous = file.read_entry(index)
        if entry_hash == key_hash:
            found.append(offset)
        elif entry_hash % slot_num != slot:
            return None
        index, before = previous, index
    return None
