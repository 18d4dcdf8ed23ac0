"""Finds which messages of a piece of a CommitLog file the ConsumeQueues point to, as far as they
can be trusted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from logdex.io.env import Env, ReadFile
from logdex.io.open_files import OpenFiles
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.consume_queue.queue_coverage import PieceEntries, QueueEntries, entries_of
from logdex.rocketmq.consume_queue.queue_cursor import QueueCursor, open_cursors
from logdex.rocketmq.read.parts.picked_messages import JOIN_BYTES, MessagePicker
from logdex.rocketmq.read.read_filter import ReadFilter, within
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window

RANGES_MAX = 64
RANGE_BYTES_MIN = 64 << 10
"""If there are more ranges than this, short ones are scanned together with their neighbours."""
READ_COST_BYTES = 4096
"""The cost of a single read, in bytes of a scan."""
OPEN_FILES_MAX = 256
"""The maximum number of ConsumeQueue files that stay open."""
_TRIES_MAX = 4
"""How often a range is shortened by a message that does not match its entry, before it is
dropped."""


@dataclass(frozen=True, slots=True)
class Guide:
    """How to read a piece. In `ranges` (rows of begin and end, positions in the file), only the
    messages of `wanted` are wanted. A message begins at the begin and at the end of each range."""

    ranges: npt.NDArray[np.int64]
    wanted: QueueEntries

    def wanted_in(self, begin_offset: int, end_offset: int) -> QueueEntries:
        """Returns the wanted entries of a range of physical offsets."""
        start, stop = np.searchsorted(self.wanted.offsets, (begin_offset, end_offset)).tolist()
        return self.wanted.where(slice(start, stop))


class QueueGuide:
    """Reads the ConsumeQueues of a store for a filter. With `bodies`, the CRC of the message at the
    end of each range is checked too, because it may be the last of the log, and torn. One thread at
    a time. The owner must call `close`."""

    def __init__(self, store: str, wanted: ReadFilter, env: Env, *, bodies: bool) -> None:
        self._store = store
        self._wanted = wanted
        self._bodies = bodies
        self._env = env
        self._open = OpenFiles(env, min(OPEN_FILES_MAX, env.descriptors_max() // 4))
        self._cursors: list[QueueCursor] | None = None
        self._numbers: dict[tuple[bytes, int], int] = {}

    def close(self) -> None:
        """Closes the ConsumeQueue files."""
        self._open.close()

    def look(
        self,
        scanner: Scanner,
        file: CommitLogFile,
        opened: ReadFile,
        begin: int,
        stop: int,
        *,
        at_any_cost: bool = False,
    ) -> Guide | None:
        """Returns the guide to the messages that begin in bytes [begin, stop) of a file, where one
        begins at `begin`. None if a scan of all of it costs less, unless `at_any_cost`."""
        said, ranges = self._trusted(scanner, file, opened, begin, stop)
        if not len(ranges):
            return None
        guide = Guide(ranges, self._wanted_of(said))
        return guide if at_any_cost or is_worth_it(guide, begin) else None

    def count(
        self, scanner: Scanner, file: CommitLogFile, opened: ReadFile, begin: int, stop: int
    ) -> tuple[int, Counter[tuple[bytes, int]]] | None:
        """Returns the position behind the messages that begin in bytes [begin, stop) of a file,
        where one begins at `begin`, and how many of them each queue has. None if the entries do not
        vouch for each of these messages once, up to the last one that an entry points to."""
        said, ranges = self._trusted(scanner, file, opened, begin, stop)
        counts: Counter[tuple[bytes, int]] = Counter()
        names, behind = [*self._numbers], begin
        for number, run in said.runs(range(len(names))):
            counts[names[number]] += len(run)
            behind += int(run.sizes.sum())
        return (behind, counts) if ranges.tolist() == [[begin, behind]] else None

    def _trusted(
        self, scanner: Scanner, file: CommitLogFile, opened: ReadFile, begin: int, stop: int
    ) -> tuple[PieceEntries, npt.NDArray[np.int64]]:
        """Returns the entries of the messages that begin in bytes [begin, stop) of a file, where
        one begins at `begin`, and the ranges (begin, end) of positions for which they vouch."""
        if self._cursors is None:
            self._cursors = open_cursors(self._store, self._env, self._open)
            self._numbers = {(cursor.topic, cursor.queue_id): n for n, cursor in enumerate(self._cursors)}
        first = file.start_offset + begin
        said = PieceEntries.of(self._cursors, first, file.start_offset + stop)
        heads = MessagePicker(scanner, file, opened, bodies=False)
        said.leave_out(self._wrong(heads, scanner, said.last()), whole_queues=True)
        whole = MessagePicker(scanner, file, opened, bodies=self._bodies)
        for _ in range(_TRIES_MAX):
            ranges = said.covered_ranges(first, file.end_offset)
            if len(ranges) > RANGES_MAX:
                ranges = ranges[ranges[:, 1] - ranges[:, 0] >= RANGE_BYTES_MIN]
            if not len(ranges):
                return said, ranges[:, :2]
            wrong = self._wrong(whole, scanner, said.at(ranges[:, 2]))
            if not len(wrong):
                break
            said.leave_out(wrong)
        return said, ranges[~np.isin(ranges[:, 2], wrong.offsets)][:, :2] - file.start_offset

    def agreeing(self, scanner: Scanner, window: Window, entries: QueueEntries) -> int:
        """Returns how many messages of a window, counted from its first, match the entries."""
        same = self._agree(scanner, window, entries)
        return window.count if same.all() else int(np.argmin(same))

    def _agree(self, scanner: Scanner, window: Window, entries: QueueEntries) -> npt.NDArray[np.bool_]:
        columns, count = window.columns, window.count
        numbers = np.array(
            [self._numbers.get((topic, queue_id), -1) for topic, queue_id in scanner.table.queues], np.int64
        )
        same: npt.NDArray[np.bool_] = columns.stored_offset[:count] == columns.position[:count]
        same &= columns.queue_offset[:count] == entries.queue_offsets[:count]
        if count:
            same &= numbers[columns.queue[:count]] == entries.queue[:count]
        return same

    def _wrong(self, picker: MessagePicker, scanner: Scanner, entries: QueueEntries) -> QueueEntries:
        """Returns the entries that do not match the messages that they point to."""
        wrong: list[int] = []
        start = 0
        while start < len(entries):
            for picked in picker.pick(entries.offsets[start:], entries.sizes[start:]):
                at, count = start + picked.rows, picked.window.count
                same = self._agree(scanner, picked.window, entries.where(slice(at, at + count)))
                wrong += (at + np.flatnonzero(~same)).tolist()
                if not picked.is_good:
                    wrong.append(at + count)
                    count += 1
            start = at + count
        return entries.where(np.array(wrong, np.int64))

    def _wanted_of(self, said: PieceEntries) -> QueueEntries:
        """Returns the entries of messages that may be wanted."""
        cursors, wanted = self._cursors or [], self._wanted
        queues = {n for n, cursor in enumerate(cursors) if wanted.wants_queue(cursor.topic, cursor.queue_id)}
        bounds, found = wanted.bounds_of_queues(), []
        for number, run in said.runs(queues):
            keep = wanted.wants_queue_offsets(run.queue_offsets)
            keep &= within(
                run.queue_offsets, *bounds.get((cursors[number].topic, cursors[number].queue_id), (None, None))
            )
            if wanted.tags is not None and wanted.knows_tags_of(cursors[number].topic):
                keep &= wanted.may_have_tag(run.tags_codes)
            found.append((number, run.where(keep)))
        return entries_of(found)


def is_worth_it(guide: Guide, begin: int) -> bool:
    """Whether following the guide costs at most half of a scan from position `begin` to the end of
    its last range."""
    size = int(guide.ranges[-1, 1]) - begin
    between = size - int((guide.ranges[:, 1] - guide.ranges[:, 0]).sum())
    wanted = guide.wanted
    gaps = wanted.offsets[1:] - (wanted.offsets + wanted.sizes)[:-1]
    joined = int(gaps[gaps <= JOIN_BYTES].sum())
    reads = len(guide.ranges) + int((gaps > JOIN_BYTES).sum())
    return 2 * (between + int(wanted.sizes.sum()) + joined + READ_COST_BYTES * reads) <= size
