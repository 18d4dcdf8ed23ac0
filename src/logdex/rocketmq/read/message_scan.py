"""Reads the messages of a log that pass a filter, in log order, by a read plan. Only these messages
are decoded or converted to Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Protocol, TypedDict

import numpy as np
import numpy.typing as npt

from logdex.errors import CorruptError
from logdex.frames.conditions import Conditions
from logdex.frames.scan_frames import ScanFrames
from logdex.primitives.shown import repr_of
from logdex.primitives.wrong_questions import require_counts
from logdex.rocketmq.commit_log.log_end import LogEnd, next_file_or_end
from logdex.rocketmq.message.stored_message import StoredMessage, decode_message
from logdex.rocketmq.read.narrow import narrowed
from logdex.rocketmq.read.plan import PlanSource, ReadPlan, plan_read
from logdex.rocketmq.read.queue_reads import Text
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.read.split import ReadSplit
from logdex.rocketmq.scan.log_walk import require_message_start

if TYPE_CHECKING:
    import pyarrow as pa

    from logdex.rocketmq.read.parts.part_reader import PartReader
    from logdex.rocketmq.read.parts.queue_counts import QueueCounts
    from logdex.rocketmq.scan.window import Window


class ScanOptions(TypedDict, total=False):
    """The options of `StoreSnapshot.scan` that are given by name."""

    start_offset: int | None
    queue_offset: int | None
    limit: int | None
    tags: Text | None
    time_slack_ms: int | None
    decompress: bool


UNDECOMPRESSED_MAX = 100
"""How many bodies that cannot be decompressed are told one by one."""

_DECODED_MESSAGES = 64
"""How many messages are decoded before it is asked whether their bytes could be read."""


def _decoded(window: Window, data: memoryview, rows: npt.NDArray[np.int64]) -> Iterator[tuple[int, StoredMessage]]:
    """Yields (physical offset, message) of some rows of a window."""
    messages: list[StoredMessage] = []
    damage = None
    for place in window.places(rows).tolist():
        try:
            messages.append(decode_message(data, place, path=window.file.path, check_crc=False)[0])
        except CorruptError as error:
            damage = error
            break
    window.require_readable(rows)
    yield from zip(window.columns.position[rows].tolist(), messages, strict=False)
    if damage is not None:
        try:
            raise damage
        finally:
            del damage  # else the frame and the error refer to each other, and keep files open


class PassEnd(Protocol):
    """Where a pass ends, even if a broker writes on."""

    @property
    def upto(self) -> LogEnd:
        """Where the log ends when the pass begins."""

    def reached(self, found: LogEnd | None = None) -> LogEnd | None:
        """Returns where the log ends for a pass that has come there, or that has found this end
        before. Returns None if that is not known."""


def _reaches(plan: ReadPlan, end_offset: int, min_offset: int) -> bool:
    """Whether the splits of a plan go on to the physical offset where the log ends."""
    if not plan.splits:
        return end_offset == min_offset
    return plan.splits[-1].file.start_offset + plan.splits[-1].end >= end_offset


class LogScan(ScanFrames):
    """One pass over a log per iteration. `end` states where and why the log ended once a pass has
    reached it, and that a broker has cut the log meanwhile (`EndKind.CUT`). It is None if `limit`
    (the maximum number of messages) or the filter's end offset stopped the pass earlier. Damage in
    messages that the filter does not require to read is not found, and messages after it are
    returned. One thread at a time.

    With `decompress`, bodies are as their producers sent them. One that cannot be decompressed
    stays as it is stored, and is among `losses`.

    `time_slack_ms` is for the read plan. `find_source` returns what to read for another filter,
    which may need the index. `find_end` returns where a pass without a limit ends even if a broker
    writes on, and where any pass looks whether the log was cut; None for no such place."""

    COUNTED_BY: ClassVar[str] = "physical_offset"

    def __init__(
        self,
        source: PlanSource,
        wanted: ReadFilter,
        limit: int | None = None,
        time_slack_ms: int | None = None,
        find_source: Callable[[ReadFilter], PlanSource] | None = None,
        find_end: Callable[[], PassEnd | None] = lambda: None,
        *,
        decompress: bool = False,
    ) -> None:
        require_counts(limit=limit)
        self._decompress = decompress
        self.undecompressed: list[str] = []
        """The errors of the bodies that could not be decompressed."""
        self.wanted = wanted
        self.limit = limit
        self.end: LogEnd | None = None
        self.trimmed: list[str] = []
        """The paths of the files that a broker removed before the last pass read them."""
        self._source = source
        self._time_slack_ms = time_slack_ms
        self._find_source = find_source
        self._find_end = find_end
        self._start_offset = wanted.begin_offset

    def __repr__(self) -> str:
        return repr_of(self, repr(self._source.log.directory), f"{self.wanted}", f"limit={self.limit}")

    @property
    def losses(self) -> list[str]:
        """What the last pass could not read, in words; empty if it read everything."""
        ends = [] if self.end is None or self.end.is_clean else [self.end.description]
        return [*self.undecompressed, *ends]

    def __iter__(self) -> Iterator[StoredMessage]:
        return (message for _, message in self.items())

    def items(self) -> Iterator[tuple[int, StoredMessage]]:
        """Yields (physical offset, message). The physical offset is the message's place, whatever
        the message itself states."""
        for window, rows in self.windows():
            data = memoryview(window.data)  # type: ignore[arg-type]  # arrays are buffers; the stubs do not say so
            for start in range(0, len(rows), _DECODED_MESSAGES):
                for offset, message in _decoded(window, data, rows[start : start + _DECODED_MESSAGES]):
                    yield offset, self._plain(offset, message) if self._decompress else message

    def _plain(self, offset: int, message: StoredMessage) -> StoredMessage:
        from logdex.rocketmq.message.body import decompress_body

        path, position = self._source.log.place_of(offset)
        try:
            return replace(message, body=decompress_body(message, path=path, position=position))
        except CorruptError as error:
            return replace(message, body=self._as_stored(error, offset, message.body))

    def _as_stored(self, error: CorruptError, _offset: int, stored: bytes) -> bytes:
        if len(self.undecompressed) < UNDECOMPRESSED_MAX:
            self.undecompressed.append(str(error))
        return stored

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""
        from logdex.rocketmq.columns.message_columns import schema_of

        return schema_of(None)

    def narrowed(self, conditions: Conditions) -> LogScan | None:
        """Returns a new scan for the messages for which the conditions hold, as `narrowed` of a
        filter does. With a limit, it is the same scan."""
        wanted = self.wanted if self.limit is not None else narrowed(self.wanted, conditions)
        if wanted is None:
            return None
        source, find = self._source, self._find_source
        if find is not None and wanted.key != self.wanted.key:
            source = find(wanted)
        more = self.limit, self._time_slack_ms, find, self._find_end
        scan = LogScan(source, wanted, *more, decompress=self._decompress)
        scan._start_offset = self._start_offset
        return scan

    def arrow_reader(self, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """Returns the messages as a `pyarrow.RecordBatchReader`, as `to_arrow` does."""
        from logdex.rocketmq.columns.message_columns import schema_of, to_record_batches

        names = None if columns is None else list(columns)
        is_plain = self._decompress and (names is None or "body" in names)
        if is_plain and names is not None:
            from logdex.rocketmq.columns.plain_bodies import NEEDED_COLUMNS

            schema_of(names)  # raises an error for wrong names
            names = [*dict.fromkeys((*names, *NEEDED_COLUMNS))]
        reader = self._reader(names)
        found = to_record_batches(self._windows(reader, names), reader.scanner.table, names)
        return self._decompressed(found, schema_of(columns)) if is_plain else found

    def _decompressed(self, found: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
        import pyarrow as pa

        from logdex.rocketmq.columns.plain_bodies import decompressed

        parts = (part for each in found for part in decompressed(each, self._source.log.place_of, self._as_stored))
        return pa.RecordBatchReader.from_batches(schema, (part.select(schema.names) for part in parts))

    def windows(self) -> Iterator[tuple[Window, npt.NDArray[np.int64]]]:
        """Yields windows with wanted messages, and the places of these in the window."""
        return self._windows(self._reader(None), None)

    def queue_counts(self) -> QueueCounts | None:
        """Returns how many messages each queue has, if the ConsumeQueues vouch for the whole log;
        then the pass is at its end. None otherwise, and with a filter or a limit."""
        from logdex.rocketmq.read.parts.queue_counts import count_by_queue

        source, end = self._source, self._find_end()
        if source.store is None or end is None or self.wanted != ReadFilter() or self.limit is not None:
            return None
        counts = count_by_queue(source.log, source.store, source.config, source.env, end.upto.offset)
        if counts is not None:
            self.end = end.reached()
        return counts

    def plan(self, columns: Sequence[str] | None = None) -> ReadPlan:
        """Plans a pass. The begin offset that the scan was made with must be that of a message."""
        return self._plan(columns, self.upto())

    def upto(self) -> LogEnd | None:
        """Returns where a pass ends even if a broker writes on; None for no such place."""
        end = None if self.limit is not None else self._find_end()
        return None if end is None else end.upto

    def _plan(self, columns: Sequence[str] | None, upto: LogEnd | None) -> ReadPlan:
        start, wanted = self._start_offset, self.wanted
        if start is not None:
            require_message_start(self._source.log, start, self._source.config, self._source.env)
        if upto is not None and (wanted.end_offset is None or wanted.end_offset > upto.offset):
            wanted = replace(wanted, end_offset=upto.offset)
        return plan_read(
            self._source,
            wanted,
            columns=columns,
            time_slack_ms=self._time_slack_ms,
            known_offsets=() if start is None else (start,),
        )

    def _reader(self, columns: Sequence[str] | None) -> PartReader:
        from logdex.rocketmq.read.parts.part_reader import PartReader

        source, bodies = self._source, columns is None or "body" in columns
        return PartReader(source.store, source.config, self.wanted, source.env, bodies=bodies)

    def _windows(
        self, reader: PartReader, columns: Sequence[str] | None
    ) -> Iterator[tuple[Window, npt.NDArray[np.int64]]]:
        self.end, self.trimmed = None, reader.trimmed
        self.undecompressed.clear()
        reader.most = self.limit
        if self.limit is not None and self.limit <= 0:
            return
        with closing(reader):
            pass_end = self._find_end()
            plan = self._plan(columns, None if pass_end is None or self.limit is not None else pass_end.upto)
            for split in plan.splits:
                end = yield from self._windows_of(split, reader)
                if reader.most is not None and reader.most <= 0:
                    return
                if end is not None or split.end == split.file.size_bytes:
                    following = next_file_or_end(self._source.log, split.file, reader.stopped_at, end)
                    if isinstance(following, LogEnd):
                        self.end = following if pass_end is None else pass_end.reached(following)
                        return
            if pass_end is not None and _reaches(plan, pass_end.upto.offset, self._source.log.min_offset):
                self.end = pass_end.reached()

    @staticmethod
    def _windows_of(
        split: ReadSplit, reader: PartReader
    ) -> Generator[tuple[Window, npt.NDArray[np.int64]], None, LogEnd | None]:
        """Yields the windows of one split, up to the limit. Returns where the log ends in it, if it
        does."""
        windows = split.windows(reader)
        while True:
            try:
                window, rows = next(windows)
            except StopIteration as stop:
                end: LogEnd | None = stop.value
                return end
            yield window, rows[: reader.most]
            if reader.most is not None:
                reader.most -= len(rows)
                if reader.most <= 0:
                    windows.close()
                    return None
