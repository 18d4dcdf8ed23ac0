"""Recovers a crashed or damaged log directory, partition or .log into a clean one with every whole
batch.

A broker truncates a log at its first bad batch and drops everything after it. This job continues
after it. Batches keep their bytes and offsets, and all derived files are derived again. For the
decisions and their reasons see ``docs/design/0009-kafka-recover.md``.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from logdex.errors import UnreadableError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.output_files import OutputFiles
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.free_space import require_free_for
from logdex.jobs.look_again import Looks, pause, removed_meanwhile
from logdex.jobs.publication import Names
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Count, LocalRunner, Runner, shared
from logdex.jobs.work_time import work_seconds
from logdex.kafka.directory.clean_mark import is_closed_cleanly
from logdex.kafka.directory.given_names import GivenNames
from logdex.kafka.directory.log_lock import lock_is_held
from logdex.kafka.directory.lost_segments import find_lost_end
from logdex.kafka.directory.partition_files import Checkpoints, home_of, stated_checkpoints
from logdex.kafka.directory.recognise import KafkaPath, require_kafka
from logdex.kafka.directory.unfinished import settle_unfinished, staged_logs
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    INDEX_SUFFIX,
    LOCK_FILE,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    LONE_CLEAN_MARK,
    offset_file_name,
    parse_offset_file,
)
from logdex.kafka.recover.partition_scan import PartitionScan, Piece, SourceLog
from logdex.kafka.recover.place import joined, place, still_missing
from logdex.kafka.recover.report import RecoverReport, Skipped
from logdex.kafka.recover.small_files import LogBounds, SmallFiles
from logdex.kafka.recover.source import (
    RecoverSource,
    SourcePartition,
    check_output,
    find_source,
    forget_expired,
    list_partition,
)
from logdex.kafka.recover.write import PartitionWriter, plan_segments
from logdex.kafka.segment.index_interval import IndexInterval, describe_intervals, index_intervals
from logdex.kafka.settings.log_config import LogConfig
from logdex.primitives.shown import counted

_RESERVE_BYTES = 64 << 10


def recover(
    path: StrPath | KafkaPath,
    output: StrPath,
    config: LogConfig | None = None,
    *,
    infer_interval: bool | None = None,
    in_place: bool = False,
    sync: bool = True,
    flags: str = "",
    progress: Progress | None = None,
    runner: Runner | None = None,
    env: Env = DEFAULT_ENV,
) -> RecoverReport:
    """Recovers what is at `path` into `output`, which mirrors it: a log directory, a partition or
    one segment.

    The output must be new or empty. With `in_place` it is the directory itself, and replaced files
    are kept under names with the date. With `infer_interval`, the `index_interval_bytes` is
    inferred from the indexes where that is possible, instead of taken from `config`; this is the
    default without a `config`. A log directory gets its checkpoints and the clean-shutdown mark.
    Nothing is published before everything is written. If the run is killed meanwhile, `flags` end
    the command that `verify` prints to run it again. The threads of `runner` take a partition each.

    Raises `NotAStoreError` if `path` is not a Kafka path, `UsageError` if the output is refused,
    `EnvironmentProblem` without enough free space, and `StorageError` if a file cannot be read or
    written; with `in_place` `LogInUseError` while a broker has the directory open. Damage is
    reported and never raised.
    """
    started = work_seconds()
    found, output = require_kafka(path, env=env), path_text(output)
    settled = settle_unfinished(found, output, in_place=in_place, sync=sync, env=env)
    source, given = find_source(found, env), GivenNames(found, output, env)
    check_output(source, output, in_place=in_place, env=env)
    output = env.real_path(output)
    logs = [(log.path, log.size_bytes) for partition in source.partitions for log in partition.logs]
    require_free_for(output, logs, lambda sizes: sum(sizes) * 65 // 64 + _RESERVE_BYTES, env)
    partition = source.partitions[0].directory if source.is_log_dir and source.partitions else None
    places: dict[str, Any] = {"home": source.home, "partition": partition}
    with staged_logs(found, output, "recover", **places, in_place=in_place, flags=flags, sync=sync, env=env) as staging:
        runner = LocalRunner(progress) if runner is None else runner
        job = _Recovery(source, staging.directory, config or LogConfig(), sync, runner, env)
        if config is None if infer_interval is None else infer_interval:
            job.infer_intervals()
        job.run(in_place=in_place)
        job.report.kept = staging.publish(_publication(source, output, job, in_place=in_place, env=env))
    report = job.report
    report.notes += _unread_start(source, output, job, env)
    report.notes[:0] = settled
    report.kept, report.notes, report.losses = given.kept(report.kept), *map(given.texts, (report.notes, report.losses))
    report.skipped = [replace(each, path=given.text(each.path), why=given.text(each.why)) for each in report.skipped]
    report.seconds = work_seconds() - started
    return report


def _publication(source: RecoverSource, output: str, job: _Recovery, *, in_place: bool, env: Env) -> Names:
    """Returns the names to publish, and those to set aside: in place single files, else whole
    partitions, then the checkpoints, and the mark of a clean shutdown last. An old mark goes first,
    because it vouches for every file. The offset index of a log that changes is emptied first,
    because its positions are not those of the new log, and a broker trusts it before the recovery
    point."""
    names, stale, emptied = list[str](), list[str](), list[str]()
    for partition in source.partitions:
        folder = f"{output}/{partition.folder}".rstrip("/")
        prefix = f"{partition.folder}/" if partition.folder else ""
        if not env.is_dir(folder) and partition.folder:
            names.append(partition.folder)
            continue
        own = list(dict.fromkeys(name.split("/")[0] for name in job.partition_names[partition.folder]))
        names += [prefix + name for name in own]
        emptied += [prefix + name for name in job.outdated_indexes[partition.folder] if in_place]
        if source.is_whole and env.is_dir(folder):
            stale += [prefix + name for name in _offset_files(folder, env) if name not in own]
    later = tuple(name for name in job.names if name != CLEAN_SHUTDOWN)
    marks = [LONE_CLEAN_MARK, posixpath.relpath(f"{source.home}/{CLEAN_SHUTDOWN}", output)] if in_place else []
    last = tuple(name for name in job.names if name == CLEAN_SHUTDOWN)
    return Names(tuple(names), tuple(stale), tuple(marks), tuple(emptied), later, last)


def _unread_start(source: RecoverSource, output: str, job: _Recovery, env: Env) -> list[str]:
    """Notes the checkpoint of a partition that was written into a log directory, where only that
    directory's own checkpoints are read."""
    home, is_lone = home_of(output, env=env)
    if source.is_log_dir or is_lone or LOG_START_CHECKPOINT not in job.partition_names[""]:
        return []
    return [
        f"{output}/{LOG_START_CHECKPOINT}: enter its line in {home}/{LOG_START_CHECKPOINT}, or deleted records return"
    ]


def _offset_files(folder: str, env: Env) -> list[str]:
    """Returns a partition's files that are named by an offset, and its .swap files, which are
    recovered too if they are whole."""
    endings = (f"{LOG_SUFFIX}.swap",)
    found = env.list_dir(folder)
    return [name for name in found if parse_offset_file(name) is not None or name.endswith(endings)]


@dataclass(slots=True)
class _Recovered:
    """What became of one partition. `notes` are about its log, `small_notes` about small files."""

    names: list[str]
    outdated_indexes: list[str]
    bounds: LogBounds
    skipped: list[Skipped]
    messages: int
    batches: int
    files: int
    losses: list[str]
    notes: list[str]
    small_notes: list[str]


class _Recovery:
    """One run: it reads `source` and writes below `directory`."""

    def __init__(
        self, source: RecoverSource, directory: str, config: LogConfig, sync: bool, runner: Runner, env: Env
    ) -> None:
        self.report = RecoverReport(notes=list(source.notes), bytes=source.size_bytes)
        self.names: list[str] = []
        """The files at the top of the output."""
        self.partition_names: dict[str, list[str]] = {}
        """The files of each partition, by folder."""
        self.outdated_indexes: dict[str, list[str]] = {}
        """Those of them that are offset indexes of a .log which is another one now, by folder."""
        self._source = source
        self._directory = directory
        self._config = config
        self._sync = sync
        self._runner = runner
        self._env = env
        self._is_beside = self._in_place = False
        self._intervals: dict[str, IndexInterval] = {}

    def infer_intervals(self) -> None:
        """Infers the interval of each partition's indexes, by folder."""
        logs = {partition.folder: [log.path for log in partition.logs] for partition in self._source.partitions}
        self._intervals = index_intervals(logs, self._env)
        self.report.inferred, self.report.assumed = describe_intervals(self._intervals)

    def _interval_of(self, partition: SourcePartition) -> int:
        given = self._config.index_interval_bytes
        return self._intervals[partition.folder].size_bytes if self._intervals else given

    def run(self, *, in_place: bool) -> None:
        """Recovers all partitions and writes the small files of the log directory."""
        home, self._in_place = self._source.home, in_place
        # In place this job holds the lock itself.
        is_beside = not in_place and lock_is_held(home, env=self._env) is True
        self._is_beside = is_beside and self._source.is_whole
        if is_beside and self._env.exists(f"{home}/{LOCK_FILE}"):
            self.report.notes.append(f"{home} is open in another process: its log may go on meanwhile")
        report, done = self.report, self._runner.run("recover", self._recover, self._source.partitions)
        both = [(each, one) for each, one in zip(self._source.partitions, done, strict=True) if one is not None]
        self._source.partitions = [partition for partition, _ in both]
        for partition, one in both:
            self.partition_names[partition.folder] = one.names
            self.outdated_indexes[partition.folder] = one.outdated_indexes
            report.skipped += one.skipped
            report.losses += one.losses
            report.messages += one.messages
            report.batches += one.batches
            report.files += one.files
            report.notes += one.notes
        report.partitions = len(both)
        for _, one in both:
            report.notes += one.small_notes
        report.notes = list(dict.fromkeys(report.notes))  # a partition that was listed again tells some again
        if self._source.is_log_dir:
            bounds = {partition.name: one.bounds for partition, one in both if partition.name is not None}
            with OutputFiles(self._env, sync=self._sync) as output:
                small = SmallFiles(self._directory, output, self._env)
                small.write_log_dir(self._source.root, bounds)
                report.files += output.close()
            self.names = small.names
            report.notes += small.notes

    def _recover(self, partition: SourcePartition, _attempt: str, count: Count) -> _Recovered | None:
        """Recovers one partition. If a broker removes old files of it meanwhile, the new log begins
        behind them. If it removes or cuts others, they are listed and read again; so they are if it
        writes to them, until two looks in a row have lost the same. Returns None if it deletes the
        partition."""
        listed: SourcePartition | None = partition
        notes, looks = list[str](), Looks(is_beside=self._is_beside)
        while listed is not None:
            try:
                one = self._look(listed, notes, shared(count, 2))
                one.notes[:0] = notes
                if looks.settles(one.skipped, one.losses):
                    return one
            except (VanishedError, UnreadableError) as error:
                if looks.fails() or not self._source.is_whole or not error.path.startswith(partition.directory):
                    raise
            pause()
            self._env.remove_tree(self._staged(partition))
            listed, notes = list_partition(partition, self._env)
        self.report.notes += notes
        return None

    def _look(self, partition: SourcePartition, notes: list[str], on_read: Count) -> _Recovered:
        """Scans and writes a partition. Old logs that a broker removes meanwhile are left out, and
        are noted."""
        scan = self._scan(partition, notes, on_read)
        while True:
            try:
                with OutputFiles(self._env, sync=self._sync) as output:
                    small = SmallFiles(self._directory, output, self._env)
                    one = self._write(partition, scan, output, small, on_read)
                    one.files = output.close()
                return one
            except VanishedError as error:
                expired = self._forget_expired(partition, error, notes)
            self._env.remove_tree(self._staged(partition))
            if not scan.forget(expired, partition.logs[0]):
                scan = self._scan(partition, notes, on_read)

    def _scan(self, partition: SourcePartition, notes: list[str], on_read: Count) -> PartitionScan:
        while True:
            scan = PartitionScan(self._env, on_read)
            try:
                for number, log in enumerate(partition.logs):
                    following = (other.base_offset for other in partition.logs[number + 1 :])
                    behind = next((base for base in following if base > log.base_offset), None)
                    scan.scan(log, behind)
            except VanishedError as error:
                self._forget_expired(partition, error, notes)  # with all that was scanned
            else:
                scan.finish()
                return scan

    def _forget_expired(self, partition: SourcePartition, error: VanishedError, notes: list[str]) -> list[SourceLog]:
        """Removes the old logs from the partition that a broker has removed, and returns them.
        Raises the error again if it is about no such log."""
        expired = forget_expired(partition, error.path, self._env) if self._source.is_whole else []
        if not expired:
            raise error
        notes += removed_meanwhile(log.path for log in expired)
        return expired

    def _staged(self, partition: SourcePartition) -> str:
        """The directory where a partition is written."""
        return f"{self._directory}/{partition.folder}".rstrip("/")

    def _write(
        self, partition: SourcePartition, scan: PartitionScan, output: OutputFiles, small: SmallFiles, on_read: Count
    ) -> _Recovered:
        placed = place(scan.pieces, scan.strays, self._env)
        writer = PartitionWriter(
            self._staged(partition),
            output,
            self._env,
            index_interval_bytes=self._interval_of(partition),
            with_state=self._source.is_whole,
            on_read=on_read,
        )
        pieces = joined(placed.pieces)
        last = partition.logs[-1] if partition.logs else None
        is_left_empty = last is not None and all(piece.source is not last for piece in pieces)
        segments = plan_segments(pieces, last.base_offset if last and is_left_empty else None, self._env)
        epochs = small.stored_epochs(partition.directory) if self._source.is_whole else []
        known = stated_checkpoints(partition.directory, [], self._env) if self._source.is_whole else Checkpoints()
        start = known.log_start_offset or 0
        writer.write(segments, epochs, start)
        bounds = LogBounds(segments[0].base_offset if segments else 0, writer.next_offset, start)
        saved = writer.write_aside([*placed.aside, *scan.doubtful])
        names, prefix = list(writer.names), f"{partition.folder}/" if partition.folder else ""
        if self._source.is_whole:
            before = len(small.names)
            small.copy_partition_metadata(partition.directory, partition.copied, partition.folder)
            small.copy_positions(partition.directory, partition.folder, bounds.next_offset, in_place=self._in_place)
            if not self._source.is_log_dir:
                small.write_partition_start(partition.directory, partition.place, bounds, in_place=self._in_place)
            names += [name.removeprefix(prefix) for name in small.names[before:]]
        where = {(piece.source.path, piece.start): name for piece, name in saved.items()}
        skipped = []
        for each in (*still_missing(partition.missing, pieces), *scan.skipped, *placed.skipped):
            name = where.get((each.path, each.start), "")
            skipped.append(replace(each, saved=prefix + name if name else ""))
        outdated = [offset_file_name(each.base_offset, INDEX_SUFFIX) for each in segments if not each.is_beginning]
        losses, notes = self._lost_end(partition, known, bounds.next_offset, skipped)
        return _Recovered(
            names,
            outdated,
            bounds,
            skipped,
            messages=sum(piece.records for piece in pieces),
            batches=sum(piece.batches for piece in pieces),
            files=0,
            losses=losses,
            notes=[*self._notes(partition, scan, writer), *_gaps(partition, pieces, skipped), *notes],
            small_notes=small.notes,
        )

    def _lost_end(
        self, partition: SourcePartition, known: Checkpoints, end_offset: int, skipped: list[Skipped]
    ) -> tuple[list[str], list[str]]:
        """Returns what the checkpoints `known` tell of offsets behind the end of the new log, as
        losses and as notes. What is lost with the `skipped` is told already."""
        tells = find_lost_end(partition.directory, known, end_offset, self._env)
        is_told = tells is not None and any(
            each.is_loss and (each.next_offset < 0 or each.next_offset >= tells.offset) for each in skipped
        )
        if tells is None or is_told or self._is_beside:
            return [], []
        if not is_closed_cleanly(partition.directory, env=self._env):
            why = "a crash, or a follower that cuts its log to its leader's, may leave it so"
            return [], [f"{tells.text}: {why}"]
        offsets = f"offsets {end_offset} to {tells.offset - 1}"
        return [f"{tells.text}: {offsets} are lost, unless there is a copy of their segment"], []

    def _notes(self, partition: SourcePartition, scan: PartitionScan, writer: PartitionWriter) -> list[str]:
        written = self._staged(partition)
        name = partition.folder or posixpath.basename(partition.directory)
        notes = [note.replace(written, name) for note in writer.notes]
        if scan.strays:
            count = sum(stray.batches for stray in scan.strays)
            told = counted(count, "batch was", "batches were")
            notes.append(f"{partition.directory}: {told} not in the order of the offsets")
        return notes


def _gaps(partition: SourcePartition, pieces: list[Piece], skipped: list[Skipped]) -> list[str]:
    """Returns what to tell of offsets between two files that no skipped bytes explain."""
    gaps = []
    for before, behind in pairwise(pieces):
        first, base = before.last_offset + 1, behind.source.base_offset
        is_told = any(each.is_loss and each.first_offset < base and each.next_offset > first for each in skipped)
        if first < base and not is_told:
            gaps.append(f"offsets {first} to {base - 1}")
    if not gaps:
        return []
    more = f", nor are those of {counted(len(gaps) - 1, 'more gap')}" if len(gaps) > 1 else ""
    return [f"{partition.directory}: {gaps[0]} are not there{more}: a segment may be missing, or compaction left none"]
