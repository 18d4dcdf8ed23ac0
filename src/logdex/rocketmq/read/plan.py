"""A read plan: the parts of a store's files that a filter needs, found from names, message heads
and indexes.

For a plan, no body is read but that of a file's first message, which says whether the file has the
right name. The messages that match are found when a part is read: through the ConsumeQueues where
they agree with the log, else by a scan. A key is looked up in the IndexFiles when the plan is made.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

from logdex.errors import CorruptError, LogdexError, MissingFileError, StorageError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.read_plan import ReadPlanBase
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.misnamed import require_right_names
from logdex.rocketmq.message.stored_message import checked_size
from logdex.rocketmq.read.keys.key_offsets import KeyIndex, index_offsets
from logdex.rocketmq.read.keys.key_question import TIME_MAX_MS, KeyQuestion
from logdex.rocketmq.read.parts.boundaries import Boundaries
from logdex.rocketmq.read.parts.time_range import offsets_of_times
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.read.split import ReadSplit
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReadPlan(ReadPlanBase[ReadSplit]):
    """The splits to read for `filter`, in log order. The file count is that of the CommitLog files
    that are not empty. When a split is read, ConsumeQueues may reduce the bytes read further."""

    filter: ReadFilter
    columns: tuple[str, ...] | None

    @property
    def schema(self) -> pa.Schema:
        """Returns the schema of all batches."""
        from logdex.rocketmq.columns.message_columns import schema_of

        return schema_of(self.columns)


@dataclass(frozen=True, slots=True)
class PlanSource:
    """What is planned for: a log, and the store's directory if it has ConsumeQueues. Without
    `index`, a key is searched in all messages of the topic."""

    log: CommitLog
    config: StoreConfig
    store: str | None = None
    env: Env = DEFAULT_ENV
    index: KeyIndex | None = None


def plan_read(
    source: PlanSource,
    wanted: ReadFilter,
    *,
    columns: Sequence[str] | None = None,
    split_bytes: int | None = None,
    time_slack_ms: int | None = None,
    known_offsets: Iterable[int] = (),
) -> ReadPlan:
    """Returns the plan for a filter and some columns (None: all).

    `split_bytes` cuts larger files into parts of about that size, at messages that the
    ConsumeQueues point to. Because a broker's clock may go back, a store time does not bound those
    before and after it. So a filter by time excludes no part unless `time_slack_ms` states by how
    much store times go back at most. `known_offsets` are physical offsets where the caller knows
    that messages begin. Raises `UsageError` for a file that has the name of another place than its
    messages, because they could be read twice.
    """
    if split_bytes is not None and split_bytes < 1:
        raise UsageError(f"split_bytes is {split_bytes}", hint="say 1 or more")
    if columns is not None:
        from logdex.rocketmq.columns.message_columns import schema_of

        schema_of(columns)
    planner = _Planner(source, wanted, columns, frozenset(known_offsets))
    try:
        planner.narrow(time_slack_ms)
        splits = planner.by_key(split_bytes)
        if splits is None:
            splits = list(planner.parts(planner.begin, planner.end, split_bytes))
    finally:
        planner.boundaries.close()
    for file in dict.fromkeys(split.file for split in splits):
        with suppress(StorageError):  # whoever reads the file meets it too
            require_right_names(source.log, [file])
    files = {file for file in source.log.files if file.size_bytes}
    total_bytes = sum(file.size_bytes for file in files)
    return ReadPlan(
        splits=tuple(splits),
        total_files=len(files),
        total_bytes=total_bytes,
        pruned_files=len(files - {split.file for split in splits}),
        pruned_bytes=total_bytes - sum(split.size_bytes for split in splits),
        filter=wanted,
        columns=planner.columns,
    )


class _Planner:
    """Builds one plan. `begin` and `end` are physical offsets, None for no bound."""

    def __init__(
        self, source: PlanSource, wanted: ReadFilter, columns: Sequence[str] | None, known_offsets: frozenset[int]
    ) -> None:
        self.columns = None if columns is None else tuple(columns)
        self.begin, self.end = wanted.begin_offset, wanted.end_offset
        self.boundaries = Boundaries(source.log, source.store, source.env)
        self._source = source
        self._log = source.log
        self._wanted = wanted
        self._known = known_offsets
        self._files = _files_from(source.log, wanted.begin_offset)

    def narrow(self, time_slack_ms: int | None) -> None:
        """Excludes what is too old or too new, if store times go back by no more than the slack."""
        wanted = self._wanted
        if time_slack_ms is None or not wanted.has_times:
            return
        times = (wanted.begin_ms, wanted.end_ms)
        begin, end = offsets_of_times(self._log, self._files, self.boundaries, times, time_slack_ms)
        if begin is not None:
            self.begin = begin if self.begin is None else max(begin, self.begin)
            self._known |= {begin}
        if end is not None:
            self.end = end if self.end is None else min(end, self.end)

    # -- parts of files ---------------------------------------------------------------------------
    def parts(self, begin: int | None, end: int | None, split_bytes: int | None) -> Iterator[ReadSplit]:
        """Yields splits for the messages that begin at physical offsets [begin, end)."""
        for file in self._files:
            first = file.start_offset if begin is None else min(max(begin, file.start_offset), file.end_offset)
            last = file.end_offset if end is None else min(end, file.end_offset)
            if first > last or (first == last and not self._is_at_end(file, first)):
                continue
            found = self._message_at(file, first)
            if found is None or found > last:
                continue
            for low, high in pairwise(self._cuts(found, last, split_bytes) if split_bytes else (found, last)):
                yield self._split(file, low - file.start_offset, high - file.start_offset)

    def _is_at_end(self, file: CommitLogFile, offset: int) -> bool:
        """Whether a file has nothing to read, but its end must be checked because the log may end
        there."""
        begin = self._wanted.begin_offset
        return offset == file.end_offset and (not file.size_bytes or (begin is not None and begin >= offset))

    def _split(self, file: CommitLogFile, begin: int, end: int) -> ReadSplit:
        source = self._source
        return ReadSplit(source.store, file, begin, end, self._wanted, self.columns, source.config)

    def _cuts(self, begin: int, end: int, split_bytes: int) -> list[int]:
        """Returns where to cut a part of a file: at messages near the bounds of equal parts."""
        count = max(1, round((end - begin) / split_bytes))
        cuts = [begin]
        for number in range(1, count):
            middle = begin + (end - begin) * number // count
            found = self.boundaries.at_or_behind(middle, min(middle + split_bytes // 2, end))
            if found is not None and found[0] > cuts[-1]:
                cuts.append(found[0])
        return [*cuts, end]

    def _message_at(self, file: CommitLogFile, offset: int) -> int | None:
        """Returns the offset of the first message at or after an offset in a file, or of what ends
        its messages there. None if the log, or its part in this file, ends earlier."""
        if offset in (file.start_offset, file.end_offset) or offset in self._known:
            return offset
        found = self.boundaries.at_or_before(offset, file.start_offset)
        start = file.start_offset if found is None else found[0]
        if start == offset:
            return offset
        from logdex.rocketmq.scan.scanner import Scanner

        scanner = Scanner(self._source.config, check_crc=False, env=self._source.env)
        for _ in scanner.scan_file(file, start - file.start_offset, offset - file.start_offset):
            pass
        stopped_at = file.start_offset + scanner.stopped_at
        return stopped_at if stopped_at >= offset else None

    # -- a key ------------------------------------------------------------------------------------
    def by_key(self, split_bytes: int | None) -> list[ReadSplit] | None:
        """Returns the splits for a key: the messages that the IndexFiles point to, and the parts
        that these do not cover. None without a key, or if the IndexFiles cannot be trusted; then
        the parts of the filter are read."""
        index, question = self._source.index, self._wanted.question()
        if index is None or question is None:
            return None
        runs = self._runs_of_key(index, question)
        if runs is None:
            return None
        parts: list[ReadSplit] = []
        for begin, end in index.missing:
            low = begin if self.begin is None else max(begin, self.begin)
            high = end if self.end is None else min(end, self.end)
            self._known |= {begin}
            if low < high:
                parts += self.parts(low, high, split_bytes)
        return self._in_order(parts, runs)

    def _runs_of_key(self, index: KeyIndex, question: KeyQuestion) -> list[tuple[int, int]] | None:
        """Returns (physical offset, size) of the messages outside the missing ranges that the
        IndexFiles point to, in order; None if one is damaged or not a message."""
        problems: list[LogdexError] = []
        first = self._files[0].start_offset if self._files else 0
        low = first if self.begin is None else max(self.begin, first)
        high = index.valid_end if self.end is None else min(self.end, index.valid_end)
        runs = []
        for offset in sorted(set(index_offsets(index.files, self._log.was_trimmed, question, TIME_MAX_MS, problems))):
            if low <= offset < high and not any(begin <= offset < end for begin, end in index.missing):
                try:
                    path, position = self._log.place_of(offset)
                    head = self._log.read(offset, BLANK.size_bytes)
                    runs.append((offset, checked_size(head, self._log.end_offset - offset, path, position)))
                except (CorruptError, MissingFileError):
                    return None
        return None if problems else runs

    def _in_order(self, parts: list[ReadSplit], runs: list[tuple[int, int]]) -> list[ReadSplit]:
        """Returns the splits of parts, and those of runs within one file and between two parts, in
        log order."""
        begins = [part.file.start_offset + part.begin for part in parts]
        splits = list(zip(begins, parts, strict=True))
        between = groupby(runs, lambda run: (bisect_left(begins, run[0]), self._log.file_of(run[0])))
        for (_, file), group in between:
            if file is not None and file in self._files:
                some = tuple(group)
                begin, end = some[0][0] - file.start_offset, sum(some[-1]) - file.start_offset
                part = replace(self._split(file, begin, end), runs=some)
                splits.append((some[0][0], part))
        return [split for _, split in sorted(splits, key=lambda pair: pair[0])]


def _files_from(log: CommitLog, begin_offset: int | None) -> list[CommitLogFile]:
    """Returns the files from the one that holds an offset on, up to the first missing file, where
    the log ends."""
    file: CommitLogFile | None = log.file_at_or_before(log.min_offset if begin_offset is None else begin_offset)
    files: list[CommitLogFile] = []
    while file is not None and (not files or file.start_offset == files[-1].start_offset + log.file_size_bytes):
        files.append(file)
        file = log.file_behind(file)
    return files
