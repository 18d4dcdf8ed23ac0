"""Recovers a crashed or damaged store, or one CommitLog file, into a clean store with every whole
message.

A broker cuts a log at its first bad message and drops everything after it. This job goes on behind
it. Messages keep their bytes, and so their physical offsets, MessageIDs and queue offsets; what
lies between them becomes placeholder messages, over which a broker walks. ConsumeQueues and
IndexFiles are derived from the new log. For the decisions and their reasons see
``docs/design/0018-rocketmq-recover.md``.
"""

from __future__ import annotations

from contextlib import suppress

from logdex.errors import StoreError, UnreadableError, VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.output_files import OutputFiles
from logdex.io.path_look import StrPath, path_text
from logdex.io.process_lock import lock_is_held
from logdex.jobs.free_space import require_free_for, used_bytes
from logdex.jobs.look_again import Looks, pause, removed_meanwhile
from logdex.jobs.output import command_line, staged_output
from logdex.jobs.publication import Names
from logdex.jobs.reports import Progress
from logdex.jobs.tasks import Count, LocalRunner, Runner, shared
from logdex.jobs.work_time import work_seconds
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.consume_queue.lives import WHY_EARLIER
from logdex.rocketmq.consume_queue.named_messages import NamedMessages
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import CHECKPOINT_FILE, COMMIT_LOG_DIR, StorePaths
from logdex.rocketmq.geometry.set_aside import settings_by_folder
from logdex.rocketmq.index_file.name_zone import resolve_name_zone
from logdex.rocketmq.rebuild.carry_over import carry_over_queues
from logdex.rocketmq.rebuild.local import derive_files
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.rebuild.source import PUBLISHED, settle_unfinished
from logdex.rocketmq.rebuild.space import output_size_bytes
from logdex.rocketmq.recognise.lost_end import losses_and_notes
from logdex.rocketmq.recover.place import NewFile, NewLog, place
from logdex.rocketmq.recover.report import RecoverReport, Skipped
from logdex.rocketmq.recover.small_files import CONFIG_DIR, copy_config, write_checkpoint
from logdex.rocketmq.recover.source import check_output, files_of, other_names
from logdex.rocketmq.recover.whole_pieces import LogScan, Piece, ScannedFile
from logdex.rocketmq.recover.write import write_file, written_path
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig, shown_log_size

_RESERVE_BYTES = 1 << 20


def recover(
    root: StrPath,
    output: StrPath,
    config: StoreConfig,
    *,
    in_place: bool = False,
    sync: bool = True,
    flags: str = "",
    progress: Progress | None = None,
    runner: Runner | None = None,
    env: Env = DEFAULT_ENV,
) -> RecoverReport:
    """Recovers the store at `root`, or the log that consists of one CommitLog file, into `output`.

    The output must be new or empty. With `in_place` it is the store itself, and what is replaced is
    kept under names with the date. Nothing is published before everything is written. If the run is
    killed meanwhile, `flags` end the command that `verify` prints to run it again. The threads of
    `runner` read a CommitLog file each, and write one each. If a broker removes old files
    meanwhile, the new log begins behind them. If it removes or cuts others, everything is read
    again; so it is if a broker writes to the store, or its log has changed meanwhile, until two
    looks in a row have lost the same.

    Raises `UsageError` if the output is refused, or with `in_place` while a broker runs on the
    store; `EnvironmentProblem` without enough free space, and `StorageError` if a file cannot be
    read or written. Damage, bytes that the disk cannot read included, is reported and never raised.
    """
    started = work_seconds()
    root, output = path_text(root), path_text(output)
    notes = settle_unfinished(root, output, in_place=in_place, sync=sync, env=env)
    check_output(root, output, config, in_place=in_place, env=env)
    command = command_line("recover", env.real_path(root), env.real_path(output), in_place=in_place, flags=flags)
    lock = broker_lock(root, env=env)
    with CommitLog.of_config(root, config, env=env) as log:
        sizes = [(file.path, file.size_bytes) for file in log.files]
        require_free_for(output, sizes, lambda used: _needed_bytes(sum(used), config), env)
    with staged_output(output, in_place=in_place, lock=lock, command=command, sync=sync, env=env) as staging:
        runner = LocalRunner(progress) if runner is None else runner
        is_beside = not in_place and not env.is_file(root) and lock_is_held(StorePaths(root).lock, env=env) is True
        looks = Looks(is_beside=is_beside)
        while True:
            report = RecoverReport(notes=list(notes), assumed=list(config.assumed))
            if is_beside:
                report.notes.append(f"{root} is open in another process: its log may go on meanwhile")
            try:
                with CommitLog.of_config(root, config, env=env) as log:
                    before = _changes_of(log, env)
                    job = _Recovery(root, log, staging.directory, config, report, sync, runner, env)
                    names = job.run(in_place=in_place)
                    has_changed = not in_place and not _changes_of(log, env).items() <= before.items()
                if looks.settles(report.skipped, report.losses, has_changed=has_changed):
                    break
            except (VanishedError, UnreadableError):  # a broker may have removed or cut a file
                if looks.fails() or in_place:
                    raise
            pause()
            for name in env.list_dir(staging.directory):
                env.remove_tree(f"{staging.directory}/{name}")
        report.kept = staging.publish(names, settings=settings_by_folder(config))
    report.seconds = work_seconds() - started
    return report


def _changes_of(log: CommitLog, env: Env) -> dict[str, int]:
    """Returns when each file in the log's directory was last modified (ns)."""
    found = dict[str, int]()
    for name in () if log.is_one_file else env.list_dir(log.directory):
        with suppress(StoreError):  # a broker removes old files, and some are no files
            found[name] = env.modified_ns(f"{log.directory}/{name}")
    return found


def _needed_bytes(log_bytes: int, config: StoreConfig) -> int:
    return log_bytes * 65 // 64 + output_size_bytes(log_bytes, config) + _RESERVE_BYTES


class _Recovery:
    """One run: it reads `log` of the store at `root` and writes below `directory`."""

    def __init__(
        self,
        root: str,
        log: CommitLog,
        directory: str,
        config: StoreConfig,
        report: RecoverReport,
        sync: bool,
        runner: Runner,
        env: Env,
    ) -> None:
        self._root = root
        self._log = log
        self._directory = directory
        self._config = config
        self._report = report
        self._sync = sync
        self._runner = runner
        self._env = env

    def run(self, *, in_place: bool) -> Names:
        """Writes everything. Returns the names to publish, the checkpoint last because it vouches
        for the others; a file ``abort`` is set aside."""
        report, env = self._report, self._env
        is_store = not self._log.is_one_file
        new = self._scan()
        self._write(new)
        self._count(new)
        self._derive(new)
        with OutputFiles(env, sync=self._sync) as output:
            write_checkpoint(self._root, self._directory, new, self._config.dialect, output, env)
            has_config = False
            if is_store and not in_place:
                has_config = copy_config(self._root, self._directory, output, report.notes, env)
                report.notes += [f"{self._root}/{name}: not taken over" for name in other_names(self._root, env)]
            report.files += output.close()
        names = (COMMIT_LOG_DIR, *PUBLISHED, *((CONFIG_DIR,) if has_config else ()))
        return Names(names, ("abort",) if in_place else (), last=(CHECKPOINT_FILE,))

    def _scan(self) -> NewLog:
        """Finds all pieces of the log, and where everything goes in the new one."""
        report, log = self._report, self._log
        log.readable_from()  # raises an error if there is nothing to read
        files, unfit = files_of(log, report.notes, self._env)
        there = [number for number, file in enumerate(files) if file.source is not None]
        scanned = self._runner.run("scan", self._scan_file, [files[number] for number in there])
        for number, file in zip(there, scanned, strict=True):
            files[number] = file
        expired = [file.has_expired for file in files]
        files = files[self._first_kept(files, expired, unfit) :]
        new = place(files, self._config.mapped_file_size_commit_log, self._first_size)
        new.unfit = unfit
        return new

    def _first_kept(self, files: list[ScannedFile], expired: list[bool], unfit: list[CommitLogFile]) -> int:
        """Returns the number of the first file behind those that a broker has removed, and notes
        them. Raises `VanishedError` if there is none, if a file before them is there, which has not
        the name of its offsets, or if an `unfit` file may be a copy of one."""
        last = max((number for number, has_expired in enumerate(expired) if has_expired), default=-1)
        first = next((number for number, file in enumerate(files) if number > last and file.source is not None), None)
        removed = [file.path for file in files[:first] if file.source is not None]
        if first is None or any(map(self._env.exists, removed)) or (removed and unfit):
            raise VanishedError("removed by the broker meanwhile", path=files[last].path)
        self._report.notes += removed_meanwhile(removed)
        return first

    def _scan_file(self, file: ScannedFile, _attempt: str, count: Count) -> ScannedFile:
        """Finds the pieces of a file."""
        named = None if self._log.is_one_file else NamedMessages(self._root, self._config, self._env)
        try:
            LogScan(self._config, self._env, named, shared(count, 2)).scan(file)
        except VanishedError:
            if not self._log.has_expired(file.start_offset):
                raise
            file.has_expired = True
        finally:
            if named is not None:
                named.close()
        return file

    def _write(self, new: NewLog) -> None:
        """Writes the new log. A file that a broker has removed meanwhile, and those before it, are
        left out of it."""
        expired = self._runner.run("write", self._write_file, new.files)
        first = self._first_kept([file.scanned for file in new.files], expired, new.unfit)
        gone = {file.scanned.path for file in new.files[:first]}
        for file in new.files[:first]:
            self._env.remove(written_path(file, self._directory))
        del new.files[:first]
        if gone and new.files[0].fills and not new.files[0].fills[0].start:  # with the time of what is gone
            raise VanishedError("removed by the broker meanwhile", path=gone.pop())
        new.skipped = [each for each in new.skipped if each.path not in gone]

    def _count(self, new: NewLog) -> None:
        """Reports what is in the new log, and what is not."""
        report, log = self._report, self._log
        report.skipped = new.skipped + [self._unfit(file) for file in new.unfit]
        told = {each.path for each in report.skipped}
        report.skipped += [
            Skipped(error.path, 0, 0, error.reason, start)
            for start, error in log.unusable.items()
            if error.path not in told
        ]
        report.placeholders = sum(each.placeholders for each in report.skipped)
        report.messages = sum(piece.messages for file in new.files for piece in file.pieces)
        report.end_offset, report.bytes = new.end_offset, log.size_bytes
        report.files = len(new.files)
        report.assumed += self._size_of_cut_file(new)

    def _size_of_cut_file(self, new: NewLog) -> list[str]:
        """Returns what to say of the size of the log's files, if only one shows it that was cut: a
        broker's file ends in a filler or in zeros."""
        size, last = self._config.mapped_file_size_commit_log, new.files[-1].scanned
        is_shown = shown_log_size(size) in self._config.evidence and len(self._log.files) == 1
        is_cut = any(each.is_torn for each in last.dropped) or any(piece.end == size for piece in last.pieces)
        why = "the only file is so long, and it was cut (--mapped-file-size-commit-log)"
        return [f"mappedFileSizeCommitLog {size}: {why}"] if is_shown and is_cut else []

    def _write_file(self, file: NewFile, _attempt: str, count: Count) -> bool:
        """Writes a file of the new log. Returns whether a broker has removed its source."""
        size = self._config.mapped_file_size_commit_log
        try:
            write_file(file, self._directory, size, sync=self._sync, env=self._env, on_read=shared(count, 2))
        except VanishedError:
            if not self._log.has_expired(file.scanned.start_offset):
                raise
            return True
        return False

    def _unfit(self, file: CommitLogFile) -> Skipped:
        why = "by its name this is no file of the log"
        is_loss = used_bytes(file.path, self._env) > 0
        return Skipped(file.path, 0, file.size_bytes, why, file.start_offset, is_loss=is_loss)

    def _first_size(self, scanned: ScannedFile, piece: Piece) -> int:
        with self._env.open_read(scanned.path) as file:
            return int.from_bytes(file.read_at(piece.start, 4), "big")

    def _derive(self, new: NewLog) -> None:
        """Derives ConsumeQueues and IndexFiles from the new log. Reading it proves that it is
        whole."""
        report, directory, config, env = self._report, self._directory, self._config, self._env
        derived = RebuildReport()
        known = KnownTopics.read(self._root, env=env)
        written = CommitLog(
            f"{directory}/{COMMIT_LOG_DIR}", file_size_bytes=config.mapped_file_size_commit_log, env=env
        )
        with written:
            scanner = Scanner(config, env=env)
            zone = resolve_name_zone(StorePaths(self._root).index, None, env=env).zone
            end, _ = derive_files(scanner, written, directory, config, known, zone, derived, sync=self._sync, env=env)
            carry_over_queues(self._root, directory, written.min_offset, config, derived, sync=self._sync, env=env)
        derived.note_end(end)
        report.files += derived.files
        report.queues, report.queue_entries = derived.queues, derived.queue_entries
        report.index_files, report.index_entries = derived.index_files, derived.index_entries
        report.assumed += derived.assumed
        report.losses += derived.losses
        self._note_lost_end(new)
        if derived.earlier_life_entries:
            are = counted(derived.earlier_life_entries, "message is", "messages are")
            report.notes.append(f"{are} in no queue: {WHY_EARLIER}")
        for topic, entries in derived.deleted_topics.items():
            report.notes.append(
                f"topic {topic}: {counted(entries, 'entry', 'entries')} left out, topics.json has no such topic: "
                "logdex rebuild --deleted-topics derives them"
            )
        if derived.stale_queues:
            report.notes.append(
                f"{counted(derived.stale_queues, 'ConsumeQueue')} left out: the new log has none of their messages"
            )

    def _note_lost_end(self, new: NewLog) -> None:
        """Reports messages behind the end of the log that something else tells of, without what is
        named already."""
        if self._log.is_one_file:
            return
        report, end = self._report, new.end_offset
        newest_ms = max((file.scanned.newest_ms for file in new.files), default=0)
        named = max(
            (each.physical_offset + each.end - each.start for each in report.skipped if each.is_loss), default=0
        )
        losses, notes = losses_and_notes(self._root, end, newest_ms, self._config, self._env, named=named)
        report.losses += losses
        report.notes += notes
