"""The dispatch of a log directory or a partition into another directory: the files of a rebuild
with key indexes, which follow the logs as they grow.

A step derives the segments whose .log has changed since they were derived, each as a whole, with
the tasks of a rebuild; then, in the partitions that these are of, the files that depend on several
segments. A key index is sorted, so that it is written anew whenever its segment has grown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from logdex.errors import NotAStoreError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.name_changes import FileStamp
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.dispatching import Ends, Stoppable, new_stage
from logdex.jobs.look_again import LOOKS_MAX
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import LocalRunner, Runner, group_parts
from logdex.jobs.work_time import work_seconds
from logdex.kafka.directory.recognise import KafkaPath, KafkaPathKind
from logdex.kafka.dispatch.journal import DerivedSegment, PartitionJournal
from logdex.kafka.dispatch.output import DispatchOutput
from logdex.kafka.dispatch.report import LogDispatchReport
from logdex.kafka.rebuild.job import TASK_SIZE_BYTES_MAX, TASK_SIZE_BYTES_MIN
from logdex.kafka.rebuild.report import KafkaRebuildReport
from logdex.kafka.rebuild.segment import RebuildSettings, SegmentDone, derive_segments
from logdex.kafka.rebuild.source import RebuildSource, SourceSegment, check_output, find_source
from logdex.kafka.rebuild.stage import StagedRows
from logdex.kafka.rebuild.state import StateDone, StateTask, derive_states, with_known_state
from logdex.kafka.segment.index_interval import index_intervals

GROUP_BYTES_A_CORE = 4 << 30
"""How much of the logs is derived at once: what is done of it is published before more is begun."""


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition with segments to derive. `stamps` are those of all its segments."""

    folder: str
    segments: Sequence[SourceSegment]
    stamps: Mapping[int, FileStamp]
    changed: Sequence[SourceSegment]

    @property
    def is_there(self) -> bool:
        """Whether no segment was removed since they were listed."""
        return len(self.stamps) == len(self.segments)

    @property
    def size_bytes(self) -> int:
        """The size of the segments to derive."""
        return sum(segment.size_bytes for segment in self.changed)


class LogDispatcher(Stoppable):
    """Dispatches the log directory or the partition `found` into the directory `output`, which is
    created if it is missing, from where an earlier run ended. `index_interval_bytes` is inferred if
    it is None.

    `stop` ends a step soon, and any thread may call it. After a kill or an error the next run goes
    on from the journals. Raises `LogInUseError` if another dispatch writes to `output`,
    `NotAStoreError` if there is no log, and `UsageError` for an output that has something else, and
    for a single segment.
    """

    def __init__(
        self,
        found: KafkaPath,
        output: StrPath,
        *,
        index_interval_bytes: int | None = None,
        env: Env = DEFAULT_ENV,
        worker_env: Env = DEFAULT_ENV,
    ) -> None:
        super().__init__()
        if found.kind not in (KafkaPathKind.LOG_DIR, KafkaPathKind.PARTITION):
            raise UsageError(
                f"{found.path} is {found.description}: dispatch follows whole partitions",
                hint="give the partition's directory; logdex rebuild derives the indexes of one segment",
            )
        source, directory = find_source(found, env), env.real_path(path_text(output))
        check_output(source, directory, in_place=False, may_be_in_place=False, env=env)
        self._found = replace(found, path=source.root)
        self._is_log_dir = source.is_log_dir
        self._settings = RebuildSettings(index_interval_bytes, key_index=True, sync=True)
        self._env, self._worker_env = env, worker_env
        self._output = DispatchOutput(directory, env)
        self.stage_directory = new_stage(directory, env)
        self.report = LogDispatchReport(path=source.root, output=directory)
        self._local: LocalRunner | None = None
        self._intervals: dict[str, int] = {}
        self._losses: list[str] = []
        self._parts = 0

    # -- running ----------------------------------------------------------------------------------
    def step(
        self,
        runner: Runner | None = None,
        *,
        until: Ends | None = None,
        progress: Progress | None = None,
        group_bytes: int | None = None,
    ) -> bool:
        """Derives what has changed, up to where the logs end now, whatever `until` is. Returns
        whether anything had. What a broker removes or replaces meanwhile is looked at again."""
        started, has_moved = work_seconds(), False
        if runner is None:
            self._local = runner = self._local or LocalRunner(progress)
        size = group_bytes or GROUP_BYTES_A_CORE * runner.cores
        for _ in range(LOOKS_MAX):
            source = self._list()
            has_moved |= self._remove_deleted(source)
            is_settled = True
            for group in group_parts(self._changed(source), size):
                if self.is_stopped:
                    break
                is_settled &= self._derive(group, runner)
                has_moved = True
            if is_settled or self.is_stopped:
                break
        self._note(source)
        if runner is not self._local:
            self.report.tasks = runner.tasks
        self.report.seconds += work_seconds() - started
        return has_moved

    def _list(self) -> RebuildSource:
        try:
            return find_source(self._found, self._env)
        except NotAStoreError:  # all topics are deleted
            return RebuildSource(self._found.path, self._found.path, is_whole=True)

    def _remove_deleted(self, source: RebuildSource) -> bool:
        deleted = [folder for folder in self._output.journals if folder not in source.partitions]
        for folder in deleted:
            self._output.remove(folder)
            self._intervals.pop(folder, None)
        return bool(deleted)

    # -- what has changed -------------------------------------------------------------------------
    def _changed(self, source: RebuildSource) -> list[_Partition]:
        """Returns the partitions with segments to derive, or that have lost some."""
        changed = [each for each in self._look_at(source) if self._has_changed(each)]
        if self._intervals and not changed:
            return []
        topics = {_topic(each.folder) for each in changed}
        self._set_intervals(source, topics if self._intervals else {_topic(folder) for folder in source.partitions})
        return [each for each in self._look_at(source) if self._has_changed(each)]

    def _look_at(self, source: RebuildSource) -> Iterator[_Partition]:
        for folder, segments in source.partitions.items():
            yield self._look(folder, segments)

    def _look(self, folder: str, listed: Sequence[SourceSegment]) -> _Partition:
        """Compares the segments of a partition with its journal. Their sizes are those of the
        stamps, which are taken before anything is read, so that what comes later is noticed."""
        journal = self._output.journals.get(folder, PartitionJournal())
        interval = self._intervals.get(folder, journal.interval_bytes)
        stamps: dict[int, FileStamp] = {}
        segments, changed = [], []
        for segment in listed:
            stamp = self._env.stamp(segment.path)
            if stamp is not None:
                stamps[segment.base_offset] = stamp
            if stamp is not None and stamp.kind == "file":
                segment = replace(segment, size_bytes=stamp.size_bytes)
            segments.append(replace(segment, index_interval_bytes=interval))
            known = journal.segments.get(segment.base_offset)
            is_known = known is not None and stamp == known.stamp and known.stamp.kind == "file"
            if not is_known or journal.interval_bytes != interval:
                changed.append(segments[-1])
        return _Partition(folder, segments, stamps, changed)

    def _has_changed(self, each: _Partition) -> bool:
        journal = self._output.journals.get(each.folder)
        bases = [segment.base_offset for segment in each.segments]
        return bool(each.changed) or journal is None or journal.is_behind or list(journal.segments) != bases

    def _set_intervals(self, source: RebuildSource, topics: set[str]) -> None:
        """Sets the index interval of the partitions of some topics, as a rebuild does."""
        given = self._settings.index_interval_bytes
        some = {folder: found for folder, found in source.partitions.items() if _topic(folder) in topics}
        if given is not None:
            self._intervals |= dict.fromkeys(some, given)
        else:
            logs = {folder: [segment.path for segment in found] for folder, found in some.items()}
            for folder, interval in index_intervals(logs, self._env).items():
                self._intervals[folder] = interval.size_bytes

    # -- deriving ---------------------------------------------------------------------------------
    def _derive(self, partitions: Sequence[_Partition], runner: Runner) -> bool:
        """Derives and publishes some partitions. Returns False if a broker has removed or replaced
        segments of one meanwhile, which is left as it was."""
        self._parts += 1
        directory = f"{self.stage_directory}/part-{self._parts}"
        env = self._env if runner is self._local else self._worker_env
        segments = [segment for each in partitions for segment in each.changed]
        size = sum(segment.size_bytes for segment in segments) // (2 * runner.cores)
        tasks = group_parts(segments, min(max(size, TASK_SIZE_BYTES_MIN), TASK_SIZE_BYTES_MAX))
        task = partial(derive_segments, f"{directory}/segments", self._settings, env)
        new: dict[str, dict[int, SegmentDone]] = {each.folder: {} for each in partitions}
        for done in runner.run("logdex dispatch: segments", task, tasks):
            for segment in done:
                new[segment.source.partition][segment.source.base_offset] = segment
        whole = [each for each in partitions if each.is_there and _are_there(new[each.folder])]
        derived = {each.folder: self._all_of(each, new[each.folder]) for each in whole}
        states = [StateTask(folder, with_known_state([*done.values()])) for folder, done in derived.items()]
        task_states = partial(derive_states, f"{directory}/states", True, env)
        for some in runner.run("logdex dispatch: states", task_states, [states] if states else []):
            for state in some:
                self._publish(derived[state.partition], new[state.partition].values(), state, partitions)
        self._env.remove_tree(directory)
        return len(whole) == len(partitions)

    def _all_of(self, partition: _Partition, new: Mapping[int, SegmentDone]) -> dict[int, SegmentDone]:
        """Returns all segments of a partition, the new ones and those of the journal."""
        journal = self._output.journals.get(partition.folder, PartitionJournal())
        found = {}
        for segment in partition.segments:
            base = segment.base_offset
            found[base] = new[base] if base in new else replace(journal.segments[base].done, source=segment)
        return found

    def _publish(
        self,
        derived: Mapping[int, SegmentDone],
        new: Iterable[SegmentDone],
        state: StateDone,
        partitions: Sequence[_Partition],
    ) -> None:
        folder, output = state.partition, self._output
        stamps = next(each.stamps for each in partitions if each.folder == folder)
        before = output.journals.get(folder, PartitionJournal()).segments
        segments = {base: DerivedSegment(stamps[base], self._kept(folder, done)) for base, done in derived.items()}
        journal = PartitionJournal(self._intervals[folder], segments, state.names, state.losses)
        output.publish(folder, journal, new, state)
        for done in new:
            old = before.get(done.source.base_offset)
            self.report.messages += max(done.messages - (old.done.messages if old else 0), 0)
            self.report.bytes += max(done.size_bytes - (old.done.size_bytes if old else 0), 0)
            self.report.segments += 1
            self.report.files += len(done.names)
        self.report.files += len(state.names)

    def _kept(self, folder: str, done: SegmentDone) -> SegmentDone:
        """Returns a derived segment with its stage file where it is kept."""
        if done.staged is None:
            return done
        path = self._output.staged_path(folder, done.source.base_offset)
        return replace(done, staged=StagedRows(path, done.staged.rows))

    # -- the end ----------------------------------------------------------------------------------
    def _note(self, source: RebuildSource) -> None:
        """Notes what is missing in the files now, in the words of a rebuild."""
        found = KafkaRebuildReport()
        for journal in self._output.journals.values():
            found.note_partition([each.done for each in journal.segments.values()])
            found.losses += journal.losses
        self._losses = [*found.losses, *source.losses]
        self.report.partitions = len(self._output.journals)
        self.report.notes = [*dict.fromkeys([*self.report.notes, *found.notes, *source.notes])]

    def close(self) -> None:
        """Releases the output. What is missing in its files is in the report then."""
        self.report.losses[:0], self._losses = self._losses, []
        self._env.remove_tree(self.stage_directory)
        self._output.close()

    def __enter__(self) -> LogDispatcher:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._output.close()


def _are_there(segments: Mapping[int, SegmentDone]) -> bool:
    return not any(done.is_gone for done in segments.values())


def _topic(folder: str) -> str:
    return folder.rpartition("-")[0]
