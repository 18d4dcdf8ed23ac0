"""Searches for the messages with a key, lazily and newest first."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError, LogdexError, MissingFileError, VanishedError
from logdex.io.env import Env
from logdex.primitives.shown import repr_of
from logdex.rocketmq.commit_log.commit_log import AHEAD_BYTES, CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.index_file.index_service import IndexService
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.read.keys.key_offsets import index_offsets
from logdex.rocketmq.read.keys.key_question import TIME_MAX_MS, TIME_MIN_MS, KeyQuestion
from logdex.rocketmq.read.plan import PlanSource, plan_read
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.read.results import OffsetRange
from logdex.rocketmq.read.split import ReadSplit
from logdex.rocketmq.settings.store_config import StoreConfig

SPLIT_BYTES = 64 << 20
"""The size of the parts in which missing ranges are searched, if ConsumeQueues show where messages
begin."""

PROBLEMS_MAX = 1000
"""The number of errors that a search keeps."""


class QuerySource(NamedTuple):
    """What a query searches: a log that ends at `valid_end`, its IndexFiles, and the ranges that
    they do not cover."""

    log: CommitLog
    index_service: IndexService
    missing: tuple[OffsetRange, ...]
    valid_end: int
    config: StoreConfig
    env: Env
    store: str | None = None
    """The store's directory, whose ConsumeQueues a search of the log may use."""
    ends_cleanly: bool = True
    """Whether the log ends at its last message, so that nothing can be behind its end."""

    def is_missing(self, offset: int) -> bool:
        """Whether a physical offset lies in a missing range. Index entries for it may be stale."""
        place = bisect_right(self.missing, (offset, TIME_MAX_MS)) - 1
        return place >= 0 and offset < self.missing[place][1]


class KeySearch:
    """The messages that a question asks for, newest first, before physical offset `cursor`. With
    `scan_missing` the missing ranges of the log are searched too. Iterating reads what is
    needed for the next message, whatever the number of messages; the counts and `problems` are
    those of what was read so far. One iteration, one thread."""

    def __init__(self, source: QuerySource, question: KeyQuestion, cursor: int | None, *, scan_missing: bool) -> None:
        self.source = source
        self.scan_missing = scan_missing or source.log.is_one_file
        self.problems: list[LogdexError] = [*source.index_service.unusable, *source.log.unusable.values()]
        """The errors of messages, index entries and searched parts that could not be read."""
        self.collisions = 0
        """The number of messages with the same hash but another topic or key."""
        self.expired = 0
        """The number of index entries for messages that are no longer in the CommitLog."""
        self.behind_end = 0
        """The number of index entries that point after the end of the CommitLog."""
        self._question = question
        self._below = TIME_MAX_MS if cursor is None else cursor

    def __repr__(self) -> str:
        return repr_of(self, repr(self.source.log.directory), f"{self._question}")

    @property
    def is_complete(self) -> bool:
        """Whether no message is left out of what was read so far."""
        return (self.scan_missing or not self.source.missing) and self.source.ends_cleanly and not self.problems

    def __iter__(self) -> Iterator[StoredMessage]:
        return (message for _, message in self.items())

    def items(self) -> Generator[tuple[int, StoredMessage], None, None]:
        """Yields (physical offset, message)."""
        last = None
        for offset in self._offsets():
            message = self._wanted_at(offset) if offset != last else None  # a message may have a key twice
            if message is not None:
                yield offset, message
            last = offset

    def _wanted_at(self, offset: int) -> StoredMessage | None:
        """Returns the message at a physical offset if the question asks for it. Entries in a
        missing range may be stale, so they are no problem."""
        source, question = self.source, self._question
        if offset < source.log.min_offset:
            self.expired += 1
            return None
        if offset >= source.valid_end:
            self.behind_end += 1
            return None
        is_doubtful = not self.scan_missing and source.is_missing(offset)
        try:
            message = source.log.read_message(offset, ahead_bytes=AHEAD_BYTES)
        except (CorruptError, MissingFileError) as error:
            if isinstance(error, VanishedError) and source.log.was_trimmed(offset):
                self.expired += 1
            elif not is_doubtful:
                self._add(error)
            return None
        if question.names(message):
            return message if question.wants(message) else None
        if question.may_mean(message):
            self.collisions += 1
        elif not is_doubtful:
            self._add(_contradiction(source.log, offset))
        return None

    def _add(self, error: LogdexError) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(error)

    def _offsets(self) -> Iterator[int]:
        """Yields the physical offsets of messages that may be meant, descending."""
        source = self.source
        indexed = index_offsets(
            source.index_service.files, source.log.was_trimmed, self._question, self._below, self.problems
        )
        if not (self.scan_missing and source.missing):
            yield from indexed
            return
        outside = ((offset, True) for offset in indexed if not source.is_missing(offset))
        with closing(MissingScan(source, self._question, self._below, self.problems)) as scan:
            for offset, is_message in heapq.merge(outside, scan.offsets(), reverse=True):
                if is_message:
                    yield offset


class MissingScan:
    """A search of the ranges that no IndexFile covers, newest first. If a part cannot be read
    further, or is in no file, the error is added to `problems` and the search goes on before it."""

    def __init__(self, source: QuerySource, question: KeyQuestion, below: int, problems: list[LogdexError]) -> None:
        from logdex.rocketmq.read.parts.part_reader import PartReader

        self._wanted = ReadFilter(
            topic=question.topic,
            key=question.key,
            begin_ms=None if question.begin_ms == TIME_MIN_MS else question.begin_ms,
            end_ms=None if question.end_ms == TIME_MAX_MS else question.end_ms,
            index_type=question.index_type,
        )
        self._source = source
        self._below = below
        self._problems = problems
        self._plan_source = PlanSource(source.log, source.config, source.store, source.env)
        self._reader = PartReader(source.store, source.config, self._wanted, source.env, bodies=False)

    def close(self) -> None:
        """Closes the ConsumeQueue files."""
        self._reader.close()

    def offsets(self) -> Iterator[tuple[int, bool]]:
        """Yields (physical offset, True) of the messages that the question asks for, descending.
        Yields (end, False) before a range that ends at that offset is searched."""
        for begin, end in reversed(self._source.missing):
            if begin < self._below:
                yield min(end, self._below), False
                self._problems += _not_held(self._source.log, begin, min(end, self._below))
                for split in self._splits(begin, end):
                    yield from ((offset, True) for offset in self._found_in(split).tolist())

    def _splits(self, begin: int, end: int) -> Iterator[ReadSplit]:
        """Yields the parts of a missing range, newest first."""
        for file in reversed(self._source.log.files):
            low, high = max(begin, file.start_offset), min(end, self._below, file.end_offset)
            if low < high:
                part = replace(self._wanted, begin_offset=low, end_offset=high)
                plan = plan_read(self._plan_source, part, split_bytes=SPLIT_BYTES, known_offsets=(begin,))
                yield from reversed(plan.splits)

    def _found_in(self, split: ReadSplit) -> npt.NDArray[np.int64]:
        """Returns the physical offsets of the messages in a part, descending."""
        windows = split.windows(self._reader)
        found = [np.empty(0, np.int64)]
        while True:
            try:
                window, rows = next(windows)
            except StopIteration as stop:
                end: LogEnd | None = stop.value
                self._problems += [] if end is None else [end.error or _unreadable(end)]
                return np.concatenate(found)[::-1]
            found.append(window.columns.position[rows])


def _not_held(log: CommitLog, begin: int, end: int) -> Iterator[MissingFileError]:
    """Yields an error for each part of [begin, end) that is in no file. What is no file has its own
    error."""
    for file in log.files:
        if file.start_offset >= end:
            break
        if begin < file.start_offset:
            yield _not_in_a_file(log, begin, file.start_offset)
        begin = max(
            begin, file.start_offset + log.file_size_bytes if file.start_offset in log.unusable else file.end_offset
        )
    if begin < end:
        yield _not_in_a_file(log, begin, end)


def _not_in_a_file(log: CommitLog, begin: int, end: int) -> MissingFileError:
    hint = "logdex verify lists all damage"
    return MissingFileError(f"no file holds the offsets {begin} to {end}", path=log.directory, hint=hint)


def _contradiction(log: CommitLog, offset: int) -> CorruptError:
    path, position = log.place_of(offset)
    message = "the index points to this message for a key that it does not have, so the index may lack keys too"
    return CorruptError(message, path=path, position=position, hint="logdex rebuild derives the index anew")


def _unreadable(end: LogEnd) -> CorruptError:
    return CorruptError(end.reason, path=end.path, position=end.position, hint="logdex verify lists all damage")
