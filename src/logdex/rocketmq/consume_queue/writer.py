"""Writes ConsumeQueue files: each entry at byte queue offset * 20, and what fills the positions
whose messages are missing.

Source: ``docs/formats/consume-queue.md``; ConsumeQueue.putMessagePositionInfo.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from logdex import limits
from logdex.io.env import Env
from logdex.io.output_files import OutputFiles
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, FILE_NAME_DIGITS
from logdex.rocketmq.consume_queue.derive import PRE_BLANK_ENTRY
from logdex.rocketmq.consume_queue.lives import begins_anew
from logdex.rocketmq.files.store_files import queue_folder

_ENTRY_SIZE = CONSUME_QUEUE_ENTRY.size_bytes
_PRE_BLANK_BATCH = 4096

GAP_REPEATS_MAX = 1024
"""More entries than a broker looks at in one call of getMessage: 800, or as many as it is asked
for."""


@dataclass(slots=True)
class QueueReport:
    """Counts of one queue's derivation.

    `entries` were written, and `gaps` positions between them were filled. `repeated`
    entries were skipped because their queue offset was written already; `implausible` ones because
    it is negative or too far ahead. `earlier` entries belong to earlier lives of the queue, which
    the newest one replaces.
    """

    entries: int = 0
    gaps: int = 0
    repeated: int = 0
    implausible: int = 0
    first_offset: int = -1
    next_offset: int = -1
    earlier: int = 0


@dataclass(slots=True)
class ConsumeQueueWriter:
    """Writes the files of one queue. For one thread.

    Each file has its full size, with zeros after the queue's last entry. Entries must come in log
    order. An entry whose queue offset is not greater than the last one is skipped, as the engine
    does, unless the queue begins anew there (see `lives`): then the files are begun anew too.

    Positions without a message are filled, so that the next entry is at its position: with
    pre-blank entries, and in a gap the last `GAP_REPEATS_MAX` positions with repetitions of the
    next entry. A broker that meets a pre-blank entry passes over entries behind it, and its binary
    searches expect physical offsets that rise. Before the queue's first entry there are pre-blank
    entries, as the engine writes them, unless the entry points to the first CommitLog file, to
    physical offsets below `first_log_file_end`. Without `first_log_file_end` all positions get
    pre-blank entries. The owner must call `finish` after the last entry.
    """

    directory: str
    file_size_bytes: int
    output: OutputFiles
    first_log_file_end: int = 0
    report: QueueReport = field(default_factory=QueueReport)
    _held: npt.NDArray[np.uint8] | None = None
    """An entry with queue offset 0 that may begin a new life: the next entry decides."""

    def put(
        self, queue_offset: npt.NDArray[np.int64], entries: npt.NDArray[np.uint8], *, may_begin_anew: bool = True
    ) -> None:
        """Writes entries (20 bytes each) at their queue offsets. Without `may_begin_anew` a queue
        offset 0 begins no new life."""
        report = self.report
        if not len(queue_offset):
            return
        first = int(queue_offset[0])
        begun = report.next_offset >= 0 or self._begin(first, entries[:_ENTRY_SIZE])
        in_order = (
            begun
            and self._held is None
            and first == report.next_offset
            and int(queue_offset[-1]) - first == len(queue_offset) - 1
        )
        if in_order and (len(queue_offset) == 1 or bool((np.diff(queue_offset) == 1).all())):
            self._write(first, entries)
            report.entries += len(queue_offset)
            report.next_offset = first + len(queue_offset)
        else:
            self._put_unordered(queue_offset, entries, may_begin_anew)

    def _put_unordered(
        self, queue_offset: npt.NDArray[np.int64], entries: npt.NDArray[np.uint8], may_begin_anew: bool
    ) -> None:
        report = self.report
        gap_max = min(limits.QUEUE_GAP_MAX, limits.QUEUE_GAP_FILES_MAX * self.file_size_bytes // _ENTRY_SIZE)
        for i, offset in enumerate(queue_offset.tolist()):
            self._settle_held(offset)
            entry = entries[_ENTRY_SIZE * i : _ENTRY_SIZE * (i + 1)]
            begun = report.next_offset >= 0 or self._begin(offset, entry)
            ahead = offset - report.next_offset
            if not begun or offset < 0 or ahead + report.gaps > gap_max:
                report.implausible += 1
                continue
            if offset == 0 and ahead < 0 and may_begin_anew:
                self._held = entry.copy()
                continue
            if ahead < 0:
                report.repeated += 1
                continue
            if ahead:
                self._fill(report.next_offset, offset, entry)
                report.gaps += ahead
            self._write(offset, entry)
            report.entries += 1
            report.next_offset = offset + 1

    def _settle_held(self, following: int | None) -> None:
        """Decides whether the held entry begins a new life. `following` is the queue offset of the
        entry after it, None if there is none."""
        held, self._held = self._held, None
        if held is None:
            return
        report = self.report
        if not begins_anew(report.next_offset, 0, following):
            report.repeated += 1
            return
        self.output.remove_dir(self.directory)
        report.earlier += report.entries
        report.entries = report.gaps = 0
        self._begin(0, held)
        self._write(0, held)
        report.entries = report.next_offset = 1

    @property
    def is_undecided(self) -> bool:
        """Whether the next entry decides if the queue begins anew."""
        return self._held is not None

    def finish(self) -> None:
        """Completes the queue. Its files stay open until the output is closed."""
        self._settle_held(None)

    def _begin(self, first: int, entry: npt.NDArray[np.uint8]) -> bool:
        """Begins the file that holds `first`, the queue offset of `entry`, and fills it up to
        there. Returns False if `first` is implausible."""
        if not 0 <= first <= limits.QUEUE_OFFSET_MAX:
            return False
        per_file = self.file_size_bytes // _ENTRY_SIZE
        self._fill(first - first % per_file, first, entry)
        self.report.first_offset = self.report.next_offset = first
        return True

    def _fill(self, start: int, end: int, following: npt.NDArray[np.uint8]) -> None:
        """Fills the positions [start, end), which have no message, before the entry `following`."""
        is_gap = self.report.next_offset >= 0
        physical_offset = int.from_bytes(following[:8].tobytes(), "big", signed=True)
        repeats = self.first_log_file_end > 0 and (is_gap or physical_offset < self.first_log_file_end)
        repeats_from = max(start, end - GAP_REPEATS_MAX) if repeats else end
        while start < repeats_from:
            count = min(repeats_from - start, _PRE_BLANK_BATCH)
            self._write(start, np.frombuffer(PRE_BLANK_ENTRY * count, np.uint8))
            start += count
        if start < end:
            self._write(start, np.tile(following, end - start))

    def _write(self, queue_offset: int, entries: npt.NDArray[np.uint8]) -> None:
        """Writes consecutive entries, split at file boundaries."""
        at = queue_offset * _ENTRY_SIZE
        done = 0
        while done < len(entries):
            inside = at % self.file_size_bytes
            part = entries[done : done + self.file_size_bytes - inside]
            path = f"{self.directory}/{at - inside:0{FILE_NAME_DIGITS}d}"
            self.output.write_at(path, self.file_size_bytes, inside, part)
            at += len(part)
            done += len(part)


class ConsumeQueueSet:
    """The writers of all queues below one ``consumequeue`` directory. Keeps few files open at a
    time. For one thread.

    `skipped` counts the entries of queues whose topic cannot be the name of a folder.
    """

    def __init__(
        self, directory: str, file_size_bytes: int, env: Env, *, sync: bool, first_log_file_end: int = 0
    ) -> None:
        self.writers: dict[str, ConsumeQueueWriter] = {}
        self.skipped: dict[tuple[bytes, int], int] = {}
        self.output = OutputFiles(env, sync=sync)
        self._owners: dict[str, bytes] = {}
        self._directory = directory
        self._file_size = file_size_bytes
        self._first_log_file_end = first_log_file_end

    def put(
        self, topic: bytes, queue_id: int, queue_offset: npt.NDArray[np.int64], entries: npt.NDArray[np.uint8]
    ) -> None:
        """Writes consecutive entries of one queue."""
        folder = queue_folder(topic, queue_id)
        if folder is None:
            self.skipped[topic, queue_id] = self.skipped.get((topic, queue_id), 0) + len(queue_offset)
            return
        writer = self.writers.get(folder)
        if writer is None:
            writer = ConsumeQueueWriter(
                *(f"{self._directory}/{folder}", self._file_size, self.output, self._first_log_file_end)
            )
            self.writers[folder] = writer
            self._owners[folder] = topic
        # Topics that are not UTF-8 may share a folder; what one of them does is no life of the
        # other.
        writer.put(queue_offset, entries, may_begin_anew=self._owners[folder] == topic)

    def close(self) -> int:
        """Closes all files, after an fsync if `sync` was given. Returns the number of files."""
        for writer in self.writers.values():
            writer.finish()
        return self.output.close()
