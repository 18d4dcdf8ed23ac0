"""Reads one part of a CommitLog file, by a scan or through the ConsumeQueues.

Through the ConsumeQueues, only wanted messages are read, and bytes without entries. The rows and
their order are those of a scan. If an entry contradicts the log, the rest of the piece is scanned,
from the last known start of a message on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

import numpy as np

from logdex.errors import CorruptError, VanishedError
from logdex.io.env import Env
from logdex.io.mapped.partly_loaded import load
from logdex.kernels.rocketmq.message_scan import BAD_CRC, Int64s
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.consume_queue.queue_coverage import QueueEntries
from logdex.rocketmq.files.offset_files import was_trimmed
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.read.parts.picked_messages import MessagePicker
from logdex.rocketmq.read.parts.queue_guide import QueueGuide
from logdex.rocketmq.read.parts.row_filter import RowFilter
from logdex.rocketmq.read.read_filter import ReadFilter
from logdex.rocketmq.scan.scan_end import log_end_at
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig

PIECE_BYTES = 256 << 20
"""The size of the pieces in which a part is read, so that the entries of all queues for one piece
fit into memory."""

Rows = tuple[Window, Int64s]
"""A window, and the places of wanted messages in it."""
_Reading = Generator[Rows, None, LogEnd | None]


class PartReader:
    """Reads parts of one store's CommitLog files, best in log order. `store` is the store's
    directory, None if it has no ConsumeQueues. `bodies` states whether bodies are read and their
    CRCs checked, except those of messages that a filter by queue or time excludes. One thread at a
    time. The owner must call `close`."""

    def __init__(
        self, store: str | None, config: StoreConfig, wanted: ReadFilter, env: Env, *, bodies: bool = True
    ) -> None:
        self.most: int | None = None
        """The number of rows still wanted, if that is known. No more messages are read at a time.
        """
        self.stopped_at = 0
        """The position in its file where reading the last part stopped."""
        self.trimmed: list[str] = []
        """The paths of the files that a broker removed before they were read."""
        self._checks_rows = bodies and (wanted.has_times or wanted.selects_queues)
        self.scanner = Scanner(wanted.scan_config(config), check_crc=bodies and not self._checks_rows, env=env)
        self._bodies = bodies
        self._filter = RowFilter(wanted, self.scanner.table)
        self._env = env
        self._guide: QueueGuide | None = None
        if store is not None and wanted.selects_queues:
            self._guide = QueueGuide(store, wanted, env, bodies=bodies)

    def close(self) -> None:
        """Closes the ConsumeQueue files."""
        if self._guide is not None:
            self._guide.close()

    def read(self, file: CommitLogFile, begin: int, end: int) -> _Reading:
        """Yields windows, with their wanted rows, of the messages that begin in bytes [begin, end)
        of a file. A message begins at `begin`. Returns the `LogEnd` that was reached, or None if
        the log continues. A file that a broker has removed meanwhile (`was_trimmed`) has no
        messages any more.
        """
        try:
            return (yield from self._read(file, begin, end))
        except VanishedError:
            if not self._skips_trimmed(file):
                raise
            return None

    def _skips_trimmed(self, file: CommitLogFile) -> bool:
        """Whether a broker has removed a file that is not there; notes it then."""
        if not was_trimmed(file, self._env):
            return False
        self.trimmed.append(file.path)
        self.stopped_at = 0
        return True

    def _read(self, file: CommitLogFile, begin: int, end: int) -> _Reading:
        self.stopped_at = begin
        while self.stopped_at < end:
            at = self.stopped_at
            if self._guide is None:
                return (yield from self._scan(file, at, end))
            stop = min(at + PIECE_BYTES, end)
            met = yield from self._through_queues(self._guide, file, at, stop)
            if met is not None or self.stopped_at < stop:  # Behind the filler, or at the end of the file.
                return met
        return None

    def pick(self, file: CommitLogFile, runs: Sequence[tuple[int, int]]) -> Iterator[Rows]:
        """Yields the wanted ones of the messages at rising physical offsets of a file, each given
        with its size in bytes. What is not a message is skipped."""
        try:
            yield from self._pick(file, runs)
        except VanishedError:
            if not self._skips_trimmed(file):
                raise

    def _pick(self, file: CommitLogFile, runs: Sequence[tuple[int, int]]) -> Iterator[Rows]:
        with self._env.open_read(file.path) as opened:
            picker = MessagePicker(self.scanner, file, opened, bodies=self._bodies)
            offsets, sizes = np.array(runs, np.int64).reshape(-1, 2).T
            while len(offsets):
                done = 0
                for picked in picker.pick(offsets, sizes, most=self.most):
                    rows = self._filter.rows(picked.window)
                    done = picked.rows + picked.window.count + (not picked.is_good)
                    if len(rows):
                        yield picked.window, rows
                offsets, sizes = offsets[done:], sizes[done:]

    # -- by a scan --------------------------------------------------------------------------------
    def _scan(self, file: CommitLogFile, begin: int, end: int, *, by_blocks: bool = False) -> _Reading:
        scan = self.scanner.scan_part if by_blocks else self.scanner.scan_file
        last = None
        with closing(scan(file, begin, end)) as windows:
            while True:
                try:
                    window = next(windows)
                except StopIteration as stop:
                    self.stopped_at = self.scanner.stopped_at
                    met: LogEnd | None = stop.value
                    return met if met is None or not self._checks_rows else self._torn_before(file, met, last)
                last = int(window.columns.position[window.count - 1]) - file.start_offset
                rows = self._filter.rows(window)
                if len(rows) and self._checks_rows:
                    bad = yield from self._with_crc(window, rows)
                    if bad is not None:
                        return bad
                elif len(rows):
                    yield window, rows

    def _torn_before(self, file: CommitLogFile, end: LogEnd, last: int | None) -> LogEnd:
        """Returns the end of a log that was scanned without CRCs. It is before its last message, at
        position `last`, if that message is wrong."""
        if last is None:
            return end
        with self._env.map_read(file.path, partly=True) as mapped:
            load(mapped.array, last)
            try:
                decode_message(memoryview(mapped.array), last, path=file.path)  # type: ignore[arg-type]  # a buffer
            except CorruptError:
                self.stopped_at = last
                return log_end_at(file, mapped.array, last, BAD_CRC)
        return end

    def _with_crc(self, window: Window, rows: Int64s) -> _Reading:
        """Yields the rows of a window whose CRCs were not checked yet, up to the first wrong one,
        where the log ends."""
        places, offsets = window.places(rows), window.columns.position[rows]
        sizes = window.columns.size[rows].astype(np.int64)
        done = 0
        while done < len(rows):
            checked, is_good = self.scanner.pick(
                window.file, window.data, places[done:], offsets[done:], sizes[done:], check_crc=True
            )
            done += checked.count
            if checked.count:
                yield checked, np.arange(checked.count)
            if not is_good:
                self.stopped_at = int(offsets[done]) - window.file.start_offset
                with self._env.map_read(window.file.path, partly=True) as mapped:
                    return log_end_at(window.file, mapped.array, self.stopped_at, BAD_CRC)
        return None

    # -- through the ConsumeQueues ----------------------------------------------------------------
    def _through_queues(self, guide: QueueGuide, file: CommitLogFile, begin: int, stop: int) -> _Reading:
        """Reads the messages that begin in bytes [begin, stop). Bytes without entries are scanned;
        elsewhere only wanted messages are read."""
        with self._env.open_read(file.path) as opened:
            found = guide.look(self.scanner, file, opened, begin, stop)
            if found is None:  # a scan costs less, but does not pass damage of other queues
                met = yield from self._scan(file, begin, stop)
                if met is None or met.is_clean or self.stopped_at >= stop:
                    return met
                found = guide.look(self.scanner, file, opened, self.stopped_at, stop, at_any_cost=True)
                if found is None:
                    return met
            picker = MessagePicker(self.scanner, file, opened, bodies=self._bodies)
            for range_begin, range_end in found.ranges.tolist():
                if self.stopped_at < range_begin:
                    met = yield from self._scan(file, self.stopped_at, range_begin, by_blocks=True)
                    if met is not None or self.stopped_at < range_begin:
                        return met
                wanted = found.wanted_in(file.start_offset + range_begin, file.start_offset + range_end)
                if self.stopped_at > range_begin or not (yield from self._pick_wanted(guide, picker, file, wanted)):
                    return (yield from self._scan(file, self.stopped_at, stop))
                self.stopped_at = range_end
        if self.stopped_at < stop:
            return (yield from self._scan(file, self.stopped_at, stop, by_blocks=True))
        return None

    def _pick_wanted(
        self, guide: QueueGuide, picker: MessagePicker, file: CommitLogFile, wanted: QueueEntries
    ) -> Generator[Rows, None, bool]:
        """Reads the messages of some entries. Returns False if one does not match its entry.
        `stopped_at` is after the last one that does."""
        for picked in picker.pick(wanted.offsets, wanted.sizes, most=self.most):
            window = picked.window
            entries = wanted.where(slice(picked.rows, picked.rows + window.count))
            good = guide.agreeing(self.scanner, window, entries)
            if good:
                self.stopped_at = int(entries.offsets[good - 1] + entries.sizes[good - 1]) - file.start_offset
            rows = self._filter.rows(window)
            rows = rows[rows < good]
            if len(rows):
                yield window, rows
            if good < window.count or not picked.is_good:
                return False
        return True
