"""Finds the physical offsets of a key in the IndexFiles, lazily and newest first.

A chain may have millions of entries, so nothing is collected: an entry is read when it is needed,
and memory does not depend on the chain. In every file that an engine wrote, a chain leads to lower
and lower offsets, because entries are added in the order of the log.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from logdex.errors import CorruptError, LogdexError, VanishedError
from logdex.rocketmq.index_file.index_file import ChainEnd, IndexChain, IndexEntry, IndexFile
from logdex.rocketmq.read.keys.entry_blocks import EntryBlocks
from logdex.rocketmq.read.keys.key_question import KeyQuestion
from logdex.rocketmq.read.results import OffsetRange

_TIME_DIFF_MAX_S = (1 << 31) - 1
_CHAIN_READS_MAX = 8
Trimmed = Callable[[int], bool]
"""`CommitLog.was_trimmed` of the log."""


@dataclass(frozen=True, slots=True)
class KeyIndex:
    """The IndexFiles of a log that ends at `valid_end`, and the ranges with keys that they do not
    cover."""

    files: Sequence[IndexFile]
    missing: tuple[OffsetRange, ...]
    valid_end: int


def index_offsets(
    files: Sequence[IndexFile], was_trimmed: Trimmed, question: KeyQuestion, below: int, problems: list[LogdexError]
) -> Iterator[int]:
    """Yields the offsets below `below` of the entries that may match, descending. A file is read
    only when it is needed. If a chain does not end properly, or leads into another one, or a broker
    has removed the file before its messages, an error is added to `problems`, because entries may
    be lost."""
    for group in _apart(files):
        walks = [_walk(file, was_trimmed, question, below, problems) for file in group]
        yield from walks[0] if len(walks) == 1 else heapq.merge(*walks, reverse=True)


def _walk(
    file: IndexFile, was_trimmed: Trimmed, question: KeyQuestion, below: int, problems: list[LogdexError]
) -> Iterator[int]:
    try:
        yield from _ChainWalk(file, question, below, problems).offsets()
    except VanishedError as error:
        if not was_trimmed(file.header.end_phy_offset):
            problems.append(error)


def _apart(files: Sequence[IndexFile]) -> Iterator[list[IndexFile]]:
    """Yields groups of files, newest first. Only files of one group may have entries for the same
    part of the log."""
    group: list[IndexFile] = []
    begin = 0
    for file in sorted(files, key=lambda file: file.header.end_phy_offset, reverse=True):
        if group and file.header.end_phy_offset > begin:
            group.append(file)
            begin = min(begin, file.header.begin_phy_offset)
            continue
        if group:
            yield group
        group, begin = [file], file.header.begin_phy_offset
    if group:
        yield group


class _ChainWalk:
    """The walk along a file's chain for one question, from below a physical offset on."""

    def __init__(self, file: IndexFile, question: KeyQuestion, below: int, problems: list[LogdexError]) -> None:
        self._file = file
        self._question = question
        self._below = below
        self._key_hash = question.key_hash()
        self._problems = problems
        self._strange: int | None = None

    def offsets(self) -> Iterator[int]:
        """Yields the offsets, descending. Each is yielded once."""
        last = self._below
        entries = self._entries()
        for index, entry in entries:
            offset = entry.phy_offset
            if offset > last and last != self._below:
                self._problems.append(self._damaged(index, "an entry that points behind a newer one", "phy_offset"))
                rest = {entry.phy_offset for _, entry in entries} | {offset}
                yield from sorted((offset for offset in rest if offset < self._below), reverse=True)
                return
            if offset < last:
                yield offset
                last = offset

    def _entries(self) -> Iterator[tuple[int, IndexEntry]]:
        """Yields (number, entry) of the entries with the question's hash that may match its times,
        newest first."""
        file = self._file
        blocks = EntryBlocks(file)
        start = blocks.place_in_chain(self._key_hash, self._below)
        for _ in range(_CHAIN_READS_MAX):
            count, is_begun = file.header.index_count, False
            chain = IndexChain(blocks, self._key_hash % file.max_hash_slot_num, start)
            for index, entry in chain:
                is_begun = True
                if entry.key_hash == self._key_hash:
                    if self._may_be_in_time(index, entry):
                        yield index, entry
                elif entry.key_hash % file.max_hash_slot_num != chain.slot and self._strange is None:
                    self._strange = index
            if is_begun or chain.end is not ChainEnd.BEYOND_COUNT:
                break
            file.reload()  # a broker has added entries since the header was read, and the slot points to them
            if file.header.index_count == count:
                break
        self._check_end(chain)

    def _check_end(self, chain: IndexChain) -> None:
        if self._strange is not None:
            self._problems.append(self._damaged(self._strange, "an entry of another chain", "key_hash"))
        elif chain.end is not ChainEnd.FIRST or chain.went_forward:
            why = "a link forward" if chain.end in (None, ChainEnd.FIRST) else chain.end.value
            message = f"the chain of this slot has {why}"
            self._problems.append(self._error(self._file.slot_position(chain.slot), message, "slot"))

    def _damaged(self, index: int, message: str, field: str) -> CorruptError:
        return self._error(self._file.entry_position(index), message, field)

    def _error(self, position: int, message: str, field: str) -> CorruptError:
        hint = "logdex rebuild derives the index anew"
        return CorruptError(message, path=self._file.path, position=position, field=field, hint=hint)

    def _may_be_in_time(self, index: int, entry: IndexEntry) -> bool:
        """Whether an entry may belong to a message within the requested times. Its time is in whole
        seconds. It is 0 after a clock went back, and the first entry of a rolled file is relative
        to the previous file; then only the message can decide."""
        if index == 1 or not 0 < entry.time_diff_s < _TIME_DIFF_MAX_S:
            return True
        time_ms = self._file.entry_time_ms(entry)
        return time_ms <= self._question.end_ms and time_ms + 999 >= self._question.begin_ms
