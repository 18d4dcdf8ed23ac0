"""A task of `verify`: proves what it can of some parts of the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from logdex.errors import StorageError, VanishedError
from logdex.io.env import Env
from logdex.jobs.tasks import Count
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.topic_table import QueueName
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify.checks import Collector
from logdex.rocketmq.verify.messages import check_messages
from logdex.rocketmq.verify.proven.index_proof import IndexProof
from logdex.rocketmq.verify.proven.queue_proof import QueueProof
from logdex.rocketmq.verify.proven.runs import IndexSpan, ProvenRun, QueueSpan, Stepping

_ODD_WINDOWS_MAX = 16
"""Behind so many odd windows in a row, the rest of a part is left to the pass."""


@dataclass(frozen=True, slots=True)
class PartTasks:
    """What all tasks of a run have in common. `index_files` are the paths of the IndexFiles in
    order, each with the physical offset of its last entry."""

    root: str
    config: StoreConfig
    is_one_file: bool
    index_files: Sequence[tuple[str, int]]
    cut_bytes: int
    env: Env

    def prove(self, parts: Sequence[ScanPart], attempt: str, count: Count) -> list[PartProof]:
        """A task: proves what it can of some parts."""
        return [self._prove_part(part, count) for part in parts]

    def _prove_part(self, part: ScanPart, count: Count) -> PartProof:
        proof = PartProof()
        queues = QueueProof(self.root, self.config, self.env)
        index = IndexProof(self.index_files, self.config, self.env)
        with closing(queues), closing(index):
            walk = _PartWalk(self, part, queues, index, proof.runs)
            try:
                first = part.first_message(self.env)
                if first is not None:
                    walk.walk(first, count)
            except VanishedError:
                proof.missing = part.file.path
            except StorageError:
                pass  # the pass meets it itself, and judges it
        return proof


@dataclass(slots=True)
class PartProof:
    """What a task has proven of a part. `missing` is the path of its file if that was not there."""

    runs: list[ProvenRun] = field(default_factory=list)
    missing: str | None = None


class _PartWalk:
    """Walks over the windows of a part, and adds runs of those that are proven to `runs`."""

    def __init__(
        self, tasks: PartTasks, part: ScanPart, queues: QueueProof, index: IndexProof, runs: list[ProvenRun]
    ) -> None:
        self._tasks = tasks
        self._part = part
        self._queues = queues
        self._index = index
        self._runs = runs
        self._scanner = Scanner(tasks.config, env=tasks.env, unreadable_is_damage=True, nobody_writes=True)
        self._tags_in_index = tasks.config.dialect.tags_in_index

    def walk(self, first: int, count: Count) -> None:
        """Walks from the message at byte `first` of the file on. `count` is called with the
        messages and bytes that are proven."""
        odd, known, names = 0, 0, self._scanner.table.queues
        for window in Stepping(self._scanner, self._tasks.cut_bytes).scan_file(self._part.file, first, self._part.stop):
            assert isinstance(window, Window)  # there are no runs yet
            run = self._proven(window)
            if run is None:
                self._index.forget()
                odd += 1
            else:
                run.names = names[known:]
                if not (self._runs and _extend(self._runs[-1], run)):
                    self._runs.append(run)
                count(run.messages, run.end_offset - run.begin_offset)
                odd = 0
            known = len(names)
            if odd == _ODD_WINDOWS_MAX:
                return

    def _proven(self, window: Window) -> ProvenRun | None:
        """Returns a run of the messages of a window, None if something about them is odd."""
        out = Collector(self._tasks.root, 0)
        check_messages(window, out)
        queues: dict[QueueName, QueueSpan] | None = {}
        index: IndexSpan | None = None
        is_indexed, tags_in_index = True, self._tags_in_index
        if not self._tasks.is_one_file:
            queues = self._queues.spans(window, self._scanner.table)
            is_indexed, index = self._index.span(window)
        if self._index.differs:  # perhaps another version wrote the index from here on
            self._tags_in_index = not tags_in_index
            self._scanner.index_tags(self._tags_in_index)
        if queues is None or not is_indexed or out.collected().truncated:
            return None
        bounds = window.begin_offset, window.end_offset
        return ProvenRun(window.file, *bounds, window.count, window.newest_ms, tags_in_index, [], queues, index)


def _extend(run: ProvenRun, behind: ProvenRun) -> bool:
    """Adds to a run the one behind it. Returns False, and changes nothing, if they do not join."""
    if run.end_offset != behind.begin_offset or run.tags_in_index != behind.tags_in_index:
        return False
    index = run.index or behind.index
    if run.index is not None and behind.index is not None:
        index = run.index.extended(behind.index)
        if index is None:
            return False
    joined = {name: span.extended(run.queues.get(name)) for name, span in behind.queues.items()}
    if None in joined.values():
        return False
    run.end_offset = behind.end_offset
    run.messages += behind.messages
    run.newest_ms = max(run.newest_ms, behind.newest_ms)
    run.names += behind.names
    run.queues.update({name: span for name, span in joined.items() if span is not None})
    run.index = index
    return True
