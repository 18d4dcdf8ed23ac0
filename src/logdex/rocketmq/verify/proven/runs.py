"""Messages that a task has proven sound: they are whole, and their entries are those on disk.

The pass over the log steps over them, and its state is then that behind these messages. Whatever a
task cannot prove is looked at by the pass itself, so that only the pass judges what is odd.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.topic_table import QueueName
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.verify.index.keys_without_entries import KeyRange

CUT_BYTES = 64 << 20
"""At the multiples of this place in each file a window ends, so that windows are the same however
the log is divided into tasks."""


class QueueSpan(NamedTuple):
    """Messages of one queue with the queue offsets [`first`, `end`)."""

    first: int
    end: int
    first_physical: int
    last_physical: int
    has_files: bool
    """Whether the queue has files, which then hold their entries."""

    def extended(self, before: QueueSpan | None) -> QueueSpan | None:
        """Returns this span with the one before it, if there is one; None if they do not join."""
        if before is None:
            return self
        if (before.end, before.has_files) != (self.first, self.has_files):
            return None
        return self._replace(first=before.first, first_physical=before.first_physical)


class IndexSpan(NamedTuple):
    """The entries [`first`, `end`) of one IndexFile, which are those of the next `keys`. Keys
    behind the last entry of all have no file (an empty `path`) and no entries."""

    path: str
    first: int
    end: int
    keys: KeyRange

    def extended(self, behind: IndexSpan) -> IndexSpan | None:
        """Returns this span with the one behind it, None if they do not join."""
        if behind.path != self.path:
            return None
        if behind.first != self.end:
            return None
        return self._replace(end=behind.end, keys=self.keys.extended(behind.keys))


@dataclass(slots=True)
class ProvenRun:
    """Consecutive messages of one file that are sound, from one physical offset to another."""

    file: CommitLogFile
    begin_offset: int
    end_offset: int
    messages: int
    newest_ms: int
    tags_in_index: bool
    """Whether the keys are those of a version that indexes tags."""
    names: list[QueueName]
    """The queues that were new to the task, in the order in which it met them."""
    queues: dict[QueueName, QueueSpan]
    """In the order of their first messages."""
    index: IndexSpan | None
    """None if the messages have no keys."""


Step = Window | ProvenRun


class Stepping:
    """Scans files and steps over runs. Not thread-safe."""

    def __init__(self, scanner: Scanner, cut_bytes: int, runs: Sequence[ProvenRun] = ()) -> None:
        self.accepts: Callable[[ProvenRun], bool] = lambda run: True
        """Whether the state of the pass is that at the beginning of a run. If not, its messages are
        scanned."""
        self._scanner = scanner
        self._cut_bytes = cut_bytes
        self._runs = {run.begin_offset: run for run in runs}
        self._begins = sorted(self._runs)

    def scan_file(
        self, file: CommitLogFile, start: int, stop: int | None = None
    ) -> Generator[Step, None, LogEnd | None]:
        """Yields what `Scanner.scan_file` yields, in windows that end at the cuts, with runs for
        windows. Returns the same."""
        scanner, end = self._scanner, file.size_bytes if stop is None else stop
        while True:
            run = self._runs.get(file.start_offset + start)
            if run is not None and run.file == file and run.end_offset <= file.start_offset + end and self.accepts(run):
                scanner.messages += run.messages
                start = scanner.stopped_at = run.end_offset - file.start_offset
                yield run
                if start >= end:
                    return None
                continue
            cut = self._next_cut(file, start)
            found = yield from scanner.scan_file(file, start, stop if cut >= end else cut)
            start = scanner.stopped_at
            if found is not None or cut >= end or start < cut:
                return found

    def _next_cut(self, file: CommitLogFile, start: int) -> int:
        """Returns the byte of the file at which a window must end, because of a cut or of a run."""
        cut = (start // self._cut_bytes + 1) * self._cut_bytes
        place = bisect_right(self._begins, file.start_offset + start)
        return min([cut, *(begin - file.start_offset for begin in self._begins[place : place + 1])])
