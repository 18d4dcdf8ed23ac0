"""Holds an IndexFile against the log with a bounded number of reads: which runs of its entries
agree with the messages that they point to.

An IndexFile may contradict the log between its first and its last entry. A broker whose CommitLog
was cut keeps the entries behind the cut and indexes the messages that it writes there only from the
old end on; while messageIndexEnable is false it indexes nothing. Such a stretch is found if one of
the looks falls into it: at evenly spaced entries, and on both sides of the largest steps of time
and offset, which a restart leaves. From there its ends are found by binary search. In a file of up
to `LOOKS_ALL` entries, every entry is looked at.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from logdex.errors import CorruptError, MissingFileError
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.index_file.derive import time_diff_s
from logdex.rocketmq.index_file.index_chain import IndexEntry
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.index_file.index_keys import message_key_hashes
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.dialect import Dialect

LOOKS_ALL = 256
"""The largest number of entries that are all looked at."""
LOOKS_MIN, LOOKS_MAX = 9, 65
"""The number of evenly spaced entries of one file that are looked at."""
LOOKS_OF_ALL_FILES = 4096
STEPS_SOUGHT = 8
"""The number of largest steps of time, and as many of offset, on whose sides is looked."""
STEP_READS = 400
"""The largest number of entries that are read in search of large steps."""


@dataclass(frozen=True, slots=True)
class Look:
    """What an entry that agrees with the log points to: the message from `offset` to before `end`.
    `lacking` are the hashes of its keys that are not in the file, so must be in the previous or in
    the next one. `says_nothing` is set if the message cannot show whether it is covered: one
    without a tag says nothing about an index of tags."""

    offset: int
    end: int
    lacking: frozenset[int]
    says_nothing: bool


@dataclass(frozen=True, slots=True)
class CoveredPart:
    """A part of the log that one file covers: from the message `first` to the message `last`."""

    first: Look
    last: Look


class IndexProbe:
    """Looks at the entries `first` to `last` of a file. With `tags`, the tags of messages must be
    in the file too; `dialect` states whether the store's index has them."""

    def __init__(self, file: IndexFile, log: CommitLog, dialect: Dialect, *, tags: bool) -> None:
        self._file = file
        self._log = log
        self._every = replace(dialect, tags_in_index=True, prepared_in_index=True)
        self._needed = replace(dialect, tags_in_index=tags)
        self._tags = tags
        self._tags_expected = dialect.tags_in_index
        self._count = min(file.header.index_count, file.max_index_num) - 1
        self._looks: dict[int, Look | None] = {}

    def parts(self, begin_offset: int, end_offset: int, looks: int) -> list[CoveredPart]:
        """Returns the parts of the log that the entries for physical offsets [begin, end) cover, in
        order. At most about `looks` evenly spaced entries are looked at."""
        first = self._first_from(begin_offset)
        last = self._first_from(end_offset) - 1
        if first > last:
            return []
        if last - first < LOOKS_ALL:
            places, splits = set(range(first, last + 1)), set(range(first, last))
        else:
            places = {first + (last - first) * number // (looks - 1) for number in range(looks)}
            splits = self._large_steps(sorted(places))
            places |= splits | {place + 1 for place in splits}
        agreeing = self._agreeing(sorted(places))
        return [CoveredPart(*part) for part in self._joined(agreeing, splits)]

    def _first_from(self, offset: int) -> int:
        """Returns the first entry that points to `offset` or a higher one, or the one behind the
        last if none does."""
        low, high = 1, self._count + 1
        if self._count > 0 and self._file.read_entry(1).phy_offset >= offset:
            return 1
        if self._count > 0 and self._file.read_entry(self._count).phy_offset < offset:
            return self._count + 1
        while low < high:
            middle = (low + high) // 2
            if self._file.read_entry(middle).phy_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    # -- one entry --------------------------------------------------------------------------------
    def look(self, place: int) -> Look | None:
        """Returns what an entry points to, or None if it contradicts the log."""
        if place not in self._looks:
            self._looks[place] = self._look(place)
        return self._looks[place]

    def _look(self, place: int) -> Look | None:
        entry = self._file.read_entry(place)
        message = message_at(self._log, entry.phy_offset)
        if message is None or entry.key_hash not in message_key_hashes(message, self._every):
            return None
        diff_s = time_diff_s(message.store_timestamp_ms, self._file.header.begin_timestamp_ms)
        if place > 1 and entry.time_diff_s != diff_s:  # the first is relative to the previous file
            return None
        low, high, hashes = self._beside(place, entry)
        lacking = frozenset(message_key_hashes(message, self._needed)) - hashes
        if lacking and low > 1 and not (high == self._count and self._file.is_write_full):
            return None
        says_nothing = self._tags and not message.tags
        return Look(entry.phy_offset, entry.phy_offset + message.size_bytes, lacking, says_nothing)

    def _beside(self, place: int, entry: IndexEntry) -> tuple[int, int, set[int]]:
        """Returns the first and the last entry of the same message, and the hashes of all of
        them."""
        hashes = {entry.key_hash}
        low = high = place
        while low > 1 and self._same(low - 1, entry, hashes):
            low -= 1
        while high < self._count and self._same(high + 1, entry, hashes):
            high += 1
        return low, high, hashes

    def _same(self, place: int, entry: IndexEntry, hashes: set[int]) -> bool:
        beside = self._file.read_entry(place)
        if beside.phy_offset != entry.phy_offset:
            return False
        hashes.add(beside.key_hash)
        return True

    # -- where to look ----------------------------------------------------------------------------
    def _large_steps(self, places: Sequence[int]) -> set[int]:
        """Returns entries before the largest steps of offset and of time that were found."""
        known = {place: self._file.read_entry(place) for place in places}
        found: set[int] = set()
        for size_of in (_offset_step, _time_step):
            found |= set(self._steps_by(size_of, known))
        return found

    def _steps_by(
        self, size_of: Callable[[IndexEntry, IndexEntry], int], known: dict[int, IndexEntry]
    ) -> Iterator[int]:
        """Yields entries before large steps. Of what is known, the span with the largest step from
        its first to its last entry is halved again and again."""
        spans = [(-size_of(known[low], known[high]), low, high) for low, high in pairwise(sorted(known))]
        heapq.heapify(spans)
        reads = found = 0
        while spans and reads < STEP_READS and found < STEPS_SOUGHT:
            size, low, high = heapq.heappop(spans)
            if size >= 0:
                return
            if high - low == 1:
                found += 1
                yield low
                continue
            middle = (low + high) // 2
            if middle not in known:
                known[middle] = self._file.read_entry(middle)
                reads += 1
            for part in ((low, middle), (middle, high)):
                heapq.heappush(spans, (-size_of(known[part[0]], known[part[1]]), *part))

    # -- what agrees ------------------------------------------------------------------------------
    def _agreeing(self, places: Sequence[int]) -> dict[int, bool]:
        """Returns for each of some entries whether it agrees with the log, and for those on both
        sides of each change in between."""
        agrees = self._settled(places)
        for low, high in pairwise(places):
            if agrees[low] != agrees[high]:
                good, bad = (low, high) if agrees[low] else (high, low)
                while abs(bad - good) > 1:
                    middle = (good + bad) // 2
                    look = self.look(middle)
                    good, bad = (middle, bad) if look is not None and not look.says_nothing else (good, middle)
                agrees |= {good: True, bad: False}
        return agrees

    def _settled(self, places: Sequence[int]) -> dict[int, bool]:
        """Returns whether entries agree. One that says nothing agrees if those beside it do."""
        looks = [self.look(place) for place in places]
        before: list[bool] = []
        behind: list[bool] = []
        for order, result in ((looks, before), (looks[::-1], behind)):
            agrees = self._tags_expected
            for look in order:
                agrees = agrees if look is not None and look.says_nothing else look is not None
                result.append(agrees)
        both = zip(places, before, reversed(behind), strict=True)
        return {place: from_before and from_behind for place, from_before, from_behind in both}

    def _joined(self, agrees: dict[int, bool], splits: set[int]) -> Iterator[tuple[Look, Look]]:
        """Yields the first and the last look of each run of entries that agree and that no split
        divides. The entries of one message are not divided."""
        first = last = None
        for place in sorted(agrees):
            look = self.look(place) if agrees[place] else None
            if look is not None:
                first, last = first if first is not None else look, look
            if first is not None and last is not None and (look is None or self._divides(place, splits)):
                yield first, last
                first = last = None
        if first is not None and last is not None:
            yield first, last

    def _divides(self, place: int, splits: set[int]) -> bool:
        return (
            place in splits and self._file.read_entry(place).phy_offset != self._file.read_entry(place + 1).phy_offset
        )


def looks_for(file_count: int) -> int:
    """Returns how many evenly spaced entries of each of some files to look at."""
    return min(max(LOOKS_OF_ALL_FILES // max(file_count, 1), LOOKS_MIN), LOOKS_MAX)


def message_at(log: CommitLog, offset: int) -> StoredMessage | None:
    """Returns the message that begins at a physical offset and states it, or None. Its CRC is not
    checked, because a query does so."""
    try:
        message = log.read_message(offset, check_crc=False)
    except (CorruptError, MissingFileError):
        return None
    return message if message.physical_offset == offset else None


def _offset_step(before: IndexEntry, behind: IndexEntry) -> int:
    return behind.phy_offset - before.phy_offset


def _time_step(before: IndexEntry, behind: IndexEntry) -> int:
    return behind.time_diff_s - before.time_diff_s
