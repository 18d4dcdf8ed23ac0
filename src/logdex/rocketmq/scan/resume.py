"""Decides where reading continues after damage, and where it may begin inside a file. `verify` and
the parts of a rebuild use this one policy.

A body may hold any bytes, for example whole messages that store the physical offset at which they
lie. So a place that looks like the start of a message need not be one. Nothing inside a body is
taken for a message of the log:

1. The fields of the damaged message are used first. They state its size twice (`LogBytes.damaged`),
   and a body whose CRC is right is skipped as a whole. If the next message, the filler or unwritten
   bytes are at the stated end, reading continues there.
2. Otherwise the places after it that look like starts are tried in order, and only a proven start
   is taken. A ConsumeQueue entry that points to the message proves it. Without such an entry, the
   chain of messages from the start must reach the filler, unwritten bytes, or `REACH_BYTES`. A
   chain inside a body ends with the body. If several chains reach that far, reading continues where
   they have joined, because before that place one of them may lie in a body.

What cannot be proven is skipped and counts as damage. One case cannot be told: without
ConsumeQueues, a message whose head is lost completely may contain a message that ends exactly where
it ends itself. No byte of the log shows which of the two is the real one.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Container, Iterable

from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.scan.log_bytes import DamagedMessage, LogBytes

REACH_BYTES = 16 << 20
"""The assumed maximum size of a message. A broker's maximum is 4 MiB by default."""

PART_REACH_BYTES = 1 << 18
"""How far a chain must reach at the beginning of a part of a rebuild. Joining the parts reveals a
wrong beginning, so this has to be right only nearly always."""

NAMED_TRIED = 1000
"""The number of starts after a proven one that are looked up in the ConsumeQueues. After a crash
the ConsumeQueues may lack the newest messages, and then no look-up succeeds."""

Named = Callable[[int, StoredMessage], bool | None]
"""Returns whether a ConsumeQueue entry points to the message at a physical offset; None if there is
no entry to decide it."""


def find_behind(data: LogBytes, at: int, named: Named | None = None) -> int | None:
    """Returns the position of the next message or filler after the damage at `at`, where a message
    should begin. Returns None if nothing after it in this file is known to belong to the log."""
    search = _Search(data, REACH_BYTES, named)
    while True:
        said = data.damaged(at)
        end = search.end_of(said)
        if end is None:
            return search.first_from(said.least, data.size)
        if data.message_end(end) is not None or data.is_filler(end):
            return end
        if data.is_unwritten(end):
            return None
        if data.message(end) is not None:
            return end  # it stores another physical offset, which a scan in order accepts too
        at = end  # the next message is damaged as well


def find_first(data: LogBytes, begin: int, stop: int) -> int | None:
    """Returns the first position in [begin, stop) where a message or the filler begins, for a
    reader that begins anywhere in a file. Returns None if none is near `begin`."""
    search = _Search(data, PART_REACH_BYTES, None)
    return search.first_from(begin, min(stop, begin + REACH_BYTES))


class _Chain(enum.Enum):
    """What a chain of messages shows about the place where it begins."""

    BROKEN = enum.auto()
    DOUBTFUL = enum.auto()
    PROVEN = enum.auto()


class _Search:
    """Searches one file for proven starts.

    A chain that ends at a filler with other bytes than zeros behind it is `DOUBTFUL`: a body may
    contain a filler, but old bytes may also follow the log's own filler. Such a chain is not taken,
    but it prevents that another chain is taken as the only one.
    """

    def __init__(self, data: LogBytes, reach: int, named: Named | None) -> None:
        self._data = data
        self._reach = reach
        self._named = named
        self._broken: set[int] = set()
        """Places from which no chain reaches far enough."""

    # -- by the fields of the damaged message -----------------------------------------------------
    def end_of(self, said: DamagedMessage) -> int | None:
        """Returns the end of a damaged message by its own fields, None if they do not decide it."""
        if said.is_sure:
            return said.ends[0]
        ends = [end for end in said.ends if self._data.goes_on(end)]
        followed = [end for end in ends if not self._data.is_unwritten(end)]
        if len(ends) == 1 and (said.is_length_right or not followed):
            return ends[0]
        for end in followed:
            if self._is_named(end):
                return end
        proven = [end for end in followed if self._chain(end) is not None]
        if proven:
            return self._meeting_place(proven[0], proven[1:])
        return next((end for end in ends if end not in followed), None)

    # -- by the bytes after it --------------------------------------------------------------------
    def first_from(self, begin: int, stop: int) -> int | None:
        """Returns the first proven start in [begin, stop). Returns None if there is none, or if
        several are possible and nothing decides between them."""
        first, chain = None, None
        for at in self._data.starts(begin, stop):
            named = self._is_named(at)
            if named:
                return at
            if named is None and (chain := self._chain(at)) is not None and self._can_be_read(at):
                first = at
                break
        if first is None or chain is None:
            return None
        behind: Iterable[int] = self._data.starts(first + 1, first + self._reach)
        if self._named is not None:
            behind = tried = list(behind)
            found = next((at for at in tried[:NAMED_TRIED] if self._is_named(at)), None)
            if found is not None:
                return found
        on_chain = set(chain)
        place = self._meeting_place(first, [at for at in behind if at not in on_chain])
        return place if place is not None and place < stop else None

    def _meeting_place(self, first: int, others: Iterable[int]) -> int | None:
        """Returns the place where the chain from `first` and those from all of `others`, which are
        after it, have joined. Returns None if two of them do not join, or if the joined chain is
        not proven."""
        place = first
        meets_at = {position: position for position in self._walk(first, 2 * self._reach)[0]}
        for at in others:
            chain, verdict = self._walk(at, self._reach, meets_at)
            meeting = meets_at.get(chain[-1])
            if meeting is not None:
                meets_at.update(dict.fromkeys(chain, meeting))
                place = max(place, meeting)
            elif verdict is _Chain.BROKEN:
                self._broken.update(chain)
            else:
                return None
        return place if self._walk(place, self._reach)[1] is _Chain.PROVEN else None

    def _is_named(self, at: int) -> bool | None:
        if self._named is None:
            return None
        message = self._data.message(at)
        return None if message is None else self._named(self._data.start_offset + at, message)

    def _can_be_read(self, at: int) -> bool:
        return self._data.is_filler(at) or self._data.message(at) is not None

    # -- chains -----------------------------------------------------------------------------------
    def _chain(self, begin: int) -> list[int] | None:
        """Returns the places of the messages from `begin` on, each of which begins where the one
        before it ends, up to a filler, to unwritten bytes or for the reach. Returns None if they do
        not reach that far."""
        chain, verdict = self._walk(begin, self._reach)
        if verdict is not _Chain.BROKEN:
            return chain
        self._broken.update(chain)
        return None

    def _walk(self, begin: int, reach: int, stops: Container[int] = ()) -> tuple[list[int], _Chain]:
        """Returns the chain from `begin` on, at most up to one of `stops`, and what it shows."""
        data, at, chain = self._data, begin, [begin]
        while at < begin + reach and at not in stops:
            if at in self._broken:
                return chain, _Chain.BROKEN
            following = data.message_end(at)
            if following is None:
                if data.is_filler(at):
                    return chain, _Chain.PROVEN if data.is_unwritten(at + BLANK.size_bytes) else _Chain.DOUBTFUL
                if data.is_unwritten(at):
                    return chain, _Chain.PROVEN if data.is_written_up_to(at) else _Chain.BROKEN
                following = self._behind_damaged(chain)
            if following is None:
                return chain, _Chain.BROKEN
            at = following
            chain.append(at)
        return chain, _Chain.PROVEN

    def _behind_damaged(self, chain: list[int]) -> int | None:
        """Returns where a chain continues if the head at its last place is not one of a message:
        after the damaged message there, or after the one before it, whose size is then wrong."""
        for at in chain[-1:-3:-1]:
            said = self._data.damaged(at)
            ends = said.ends if said.is_sure else [end for end in said.ends if self._data.goes_on(end)]
            if len(ends) == 1 and said.is_length_right and ends[0] not in chain[-2:]:
                if at != chain[-1]:
                    chain.pop()
                return ends[0]
        return None
