"""Opens a store for writing: takes the lock, finds where the log ends, and derives what its
ConsumeQueues and IndexFiles lack.

Nothing is written before all decisions are made. While the store is open, and after a crash, it has
the file ``abort``. Source: DefaultMessageStore.load, start, createTempFile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache

from logdex.errors import MissingFileError, StorageError, UsageError
from logdex.io.env import Env
from logdex.io.path_look import PathLook
from logdex.io.process_lock import ProcessLock
from logdex.jobs.journal import find_unfinished
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.broker_lock import take_broker_lock
from logdex.rocketmq.files.config_files import DelayOffsets
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.offset_files import has_offset_files
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.geometry.resolve import contradiction, is_upgrade, resolve_config
from logdex.rocketmq.message_store.closed_state import ClosedState
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.derived.checkpoint import LiveCheckpoint
from logdex.rocketmq.message_store.derived.dispatch import DerivedFiles, Dispatch
from logdex.rocketmq.message_store.derived.index import IndexStart, LiveIndex, find_start
from logdex.rocketmq.message_store.derived.queues import LiveQueues
from logdex.rocketmq.message_store.kept_windows import KeptWindows
from logdex.rocketmq.message_store.load_report import LoadReport
from logdex.rocketmq.message_store.log_recovery import (
    clean_end,
    remove_later_files,
    require_no_damage,
    require_whole_files,
    scan_start,
    unclean_end,
)
from logdex.rocketmq.message_store.options import StoreOptions
from logdex.rocketmq.message_store.put.encode import Encoder
from logdex.rocketmq.message_store.put.log_files import LogFiles
from logdex.rocketmq.message_store.queue_recovery import (
    has_expired,
    is_damaged,
    lacks_consumed_queues,
    lacks_entries,
    last_offsets,
)
from logdex.rocketmq.message_store.services.schedule import ScheduleMessageService
from logdex.rocketmq.message_store.topics import Topics
from logdex.rocketmq.recognise.layout_check import require_supported_layout
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.dialect import DEFAULT_VERSION
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.store_settings import StoreSettings

_NAMES = {"commitlog", "consumequeue", "index", "config", "checkpoint", "abort", "abort.bak", "lock"}
"""Names of which a store's directory has at least one."""


@dataclass(slots=True)
class OpenedStore:
    """The parts of an open store."""

    core: StoreCore
    dispatch: Dispatch
    encoder: Encoder
    schedule: ScheduleMessageService
    report: LoadReport


@dataclass(slots=True)
class _Found:
    """What was decided before anything is written."""

    end_offset: int
    last_timestamp_ms: int
    queues_from: int
    index: IndexStart


def open_store(
    path: str, options: StoreOptions, settings: StoreSettings, *, create: bool, clock_ms: Callable[[], int], env: Env
) -> OpenedStore:
    """Opens the store at `path`; see `MessageStore.open`."""
    if not env.is_dir(path):
        if env.exists(path):
            raise UsageError(f"{path}: not a directory", hint="give the directory of a store")
        if not create:
            raise MissingFileError("there is no such directory", path=path)
        _new_log_start(options, _config_of(path, settings, env))  # wrong settings leave no directory
    _require_place(path, env)
    env.make_dirs_durably(path)
    lock = take_broker_lock(path, env=env)
    try:
        return _Opening(StorePaths(path), _config_of(path, settings, env), options, clock_ms, env, lock).run()
    except BaseException:
        lock.release()
        raise


def _require_place(path: str, env: Env) -> None:
    """Raises an error if a directory holds something else, or a store that cannot be written, or is
    half-published."""
    look = PathLook(path, env)
    require_supported_layout(look)
    names = {name for name in look.names() if not name.startswith(".logdex-")}
    if names and not names & _NAMES:
        raise UsageError(f"{path}: not a store, and not empty", hint="give a store's root, or a new directory")
    for unfinished in find_unfinished([path], env, is_writer=True):
        raise unfinished.error  # some files are new, and some are as before


def _config_of(path: str, settings: StoreSettings, env: Env) -> StoreConfig:
    """Returns the configuration of a store that can be written."""
    if "rocketmq_version" not in settings and not has_offset_files(env, StorePaths(path).commit_log):
        settings = {**settings, "rocketmq_version": DEFAULT_VERSION}  # nothing shows it yet
    config = resolve_config(path, env=env, **settings)
    if (problem := contradiction(config)) is not None and not is_upgrade(path, env=env, **settings):
        raise problem
    if config.more_store_paths_commit_log:
        text = f"{path}: a log in several store paths is read, and not written"
        raise UsageError(text, hint="give one storePathCommitLog")
    return config


def _new_log_start(options: StoreOptions, config: StoreConfig) -> int:
    """Returns the physical offset at which a new log begins."""
    start, size = options.first_offset, config.mapped_file_size_commit_log
    if start % size:
        raise UsageError(
            f"first_offset {start} is not the start of a file of {size} bytes", hint="give mapped_file_size_commit_log"
        )
    return start


class _Opening:
    """One opening of one store."""

    def __init__(
        self,
        paths: StorePaths,
        config: StoreConfig,
        options: StoreOptions,
        clock_ms: Callable[[], int],
        env: Env,
        lock: ProcessLock,
    ) -> None:
        self.paths, self.config, self.options = paths, config, options
        self.clock_ms, self.env, self.lock = clock_ms, env, lock
        self.directory = config.store_path_commit_log or paths.commit_log
        self.report = LoadReport(was_clean=not env.exists(paths.abort))
        self._kept: KeptWindows | None = None
        """What a scan found that looked for the log's end."""

    def run(self) -> OpenedStore:
        """Opens the store, and closes all files if that fails."""
        queues = LiveQueues(self.paths, self.config, self.env)
        closing: list[Callable[[], None]] = [queues.close_files]
        try:
            log = self._first_look()
            if log is not None:
                closing.append(log.close)
            checkpoint = LiveCheckpoint(self.paths.checkpoint, self.env)
            found = self._decide(log, queues, checkpoint)
            # A store that is refused because of a file in config/ stays as it was closed.
            topics = Topics(self.paths.config, self.config.dialect, self.options.default_topic_queue_nums, env=self.env)
            delays = DelayOffsets.read(self.paths.config, env=self.env)
            delays.file.require_newest()
            self.report.config_remarks = [each for each in (topics.remark, delays.file.remark) if each is not None]
            self._require_folders(topics)
            self._mark_open()
            reader, files = self._cut(log, found.end_offset)
            closing += [reader.close, files.close]
            index = LiveIndex(self.paths, self.config, checkpoint, found.index, self.env)
            closing.append(index.close_files)
            table = None if self._kept is None else self._kept.table
            derived = DerivedFiles(queues, index, self.config, self.env, table)
            self._derive(derived, reader, found)
            core = self._core(files, reader, queues, topics, found)
            dispatch = Dispatch(core, derived, checkpoint)
            encoder = Encoder(self.config, self.options)
            schedule = ScheduleMessageService(core, queues, encoder, delays)
            dispatch.flush()
            core.prepare_file()
            return OpenedStore(core, dispatch, encoder, schedule, self.report)
        except BaseException:
            for close in closing:
                close()
            raise

    # -- deciding ---------------------------------------------------------------------------------
    def _first_look(self) -> CommitLog | None:
        """The log as it is, or None if there is no file of it yet."""
        if not has_offset_files(self.env, self.directory):
            return None
        size = self.config.mapped_file_size_commit_log
        log = CommitLog(self.directory, file_size_bytes=size, env=self.env)
        require_whole_files(log)
        self.env.open_write(log.files[-1].path).close()  # before `abort` is made, if that is refused
        return log

    def _decide(self, log: CommitLog | None, queues: LiveQueues, checkpoint: LiveCheckpoint) -> _Found:
        found_queues = queues.discover()
        self._require_queue_size(found_queues)
        if log is None:
            if any(queue.max_offset for queue in found_queues):
                text = "the CommitLog is missing, although there are ConsumeQueues"
                raise MissingFileError(text, path=self.directory)
            start = _new_log_start(self.options, self.config)
            return _Found(start, 0, start, IndexStart(start, 0, (), ()))
        end_offset, last_ms, is_clean = -1, 0, False
        if self.report.was_clean:
            end, last_ms = clean_end(log, last_offsets(found_queues, log), self.config, self.env)
            end_offset, is_clean = end.offset, end.is_clean
        queues_from = end_offset
        if not is_clean:
            self._kept = KeptWindows(scan_start(log, checkpoint.values))
            how = checkpoint.values, self.config, self.env
            stop, end_offset, last_ms = unclean_end(log, self._kept, self.paths.root, *how)
            queues_from = self._kept.start
            if stop is None or not stop.is_clean:
                self.report.cut_reason = "a torn message" if stop is None else stop.reason
        damaged = [queue for queue in found_queues if is_damaged(queue)]
        closed = ClosedState.read(self.paths.root, log, end_offset, self.env)
        is_missing = bool(damaged) or not found_queues or self._have_lost(found_queues, log, closed)
        known = self._is_deleted(), self.config, self.env, closed is None
        if is_missing or ((is_clean or closed is None) and lacks_entries(found_queues, log, queues_from, *known)):
            queues_from = log.min_offset
        trusted_ms = None if self.report.was_clean else checkpoint.values.index_msg_timestamp_ms
        keyless, indexed = ((), ()) if closed is None else (closed.keyless, closed.indexed)
        places = self.paths, log, end_offset, self.config, trusted_ms, self.env
        index = find_start(*places, keyless=keyless, indexed=indexed)
        if self._kept is None:
            require_no_damage(log, min(queues_from, index.offset), end_offset, self.config, self.env)
        self.report.log_end_offset, self.report.queues_from = end_offset, queues_from
        self.report.index_from = index.offset
        self.report.removed_index_files = list(index.doomed)
        for queue in damaged:
            report = self.report.mended_queues if has_expired(queue, log.min_offset) else self.report.removed_queues
            report.append(queue.directory)
        return _Found(end_offset, last_ms, queues_from, index)

    def _require_queue_size(self, queues: list[ConsumeQueue]) -> None:
        """Raises `UsageError` if all ConsumeQueue files have one other size than the stated one.
        They are not damaged then, and making them anew would lose where queues go on whose messages
        have expired."""
        sizes = [file.size_bytes for queue in queues for file in queue.files]
        stated = self.config.consume_queue_file_size_bytes
        if len(sizes) > 1 and len(set(sizes)) == 1 and sizes[0] not in (0, stated):
            text = f"the files have {sizes[0]} bytes, but mapped_file_size_consume_queue is {stated}"
            hint = "leave it out to have it inferred from the files"
            raise UsageError(f"{self.paths.consume_queue}: {text}", hint=hint)

    def _require_folders(self, topics: Topics) -> None:
        """Raises an error if something else has the name of a topic's folder. As for a broker, any
        other file in ``consumequeue/`` does no harm."""
        directory = self.paths.consume_queue
        for name in self.env.list_dir(directory) if self.env.is_dir(directory) else ():
            path = f"{directory}/{name}"
            if not self.env.is_dir(path) and (os.fsencode(name) in topics or not self.env.is_file(path)):
                self.env.make_dirs(path)  # says that it is no directory

    def _have_lost(self, queues: list[ConsumeQueue], log: CommitLog, closed: ClosedState | None) -> bool:
        """Whether a queue has lost entries that it had at the last clean close, or if nothing says
        what those were, whether a queue is missing that consumers have read."""
        if closed is None:
            return lacks_consumed_queues(queues, self.paths, self.env)
        return closed.has_more(queues, log.min_offset, self._is_deleted(), self.paths.root)

    def _is_deleted(self) -> Callable[[bytes], bool]:
        return cache(KnownTopics.read(self.paths.root, env=self.env).is_deleted)

    # -- changing ---------------------------------------------------------------------------------
    def _mark_open(self) -> None:
        """Creates the directories and ``abort``, durably."""
        paths = self.paths
        rocksdb = [paths.rocksdb_store] if self.config.dialect.has_rocksdb_store else []
        for directory in (self.directory, paths.consume_queue, paths.index, paths.config, *rocksdb):
            self.env.make_dirs_durably(directory)
        with self.env.open_write(paths.abort) as file:
            file.truncate(0)
            if self.config.dialect.abort_has_process_id:
                file.write_at(0, str(os.getpid()).encode())
            file.sync()
        if self.config.dialect.abort_has_process_id and not self.env.exists(f"{paths.abort}.bak"):
            self.env.open_write(f"{paths.abort}.bak").close()
        self.env.sync_dir(paths.config)  # a killed process may have renamed topics.json, and no more
        self.env.sync_dir(paths.root)
        try:
            self.env.sync_dir(os.path.dirname(paths.root) or ".")
        except StorageError as error:
            if error.errno not in (errno.EACCES, errno.EPERM):
                raise  # whoever made the directory made its name durable

    def _cut(self, log: CommitLog | None, end_offset: int) -> tuple[CommitLog, LogFiles]:
        """Makes the log end at `end_offset`, and opens it for reading and writing."""
        size = self.config.mapped_file_size_commit_log
        if log is not None:
            remove_later_files(log, end_offset, self.env)
        files = LogFiles(self.env, self.directory, size, end_offset, warm=self.options.warm_mapped_file_enable)
        try:
            if log is None:
                log = CommitLog(self.directory, file_size_bytes=size, env=self.env)
            log.refresh()
        except BaseException:
            files.close()
            raise
        return log, files

    def _derive(self, derived: DerivedFiles, log: CommitLog, found: _Found) -> None:
        """Brings the ConsumeQueues and IndexFiles up to the end of the log."""
        before = self._take_in(derived.queues, found.queues_from)
        self._scan(derived, log, found.queues_from, (found.index.offset, found.index.keys_done), found.end_offset)
        if found.queues_from > log.min_offset and _has_gap(derived.queues, before):
            # A queue lacks entries for messages before the place from which the others are whole.
            self.report.queues_from = log.min_offset
            derived.queues.flush()
            derived.queues.forget()
            self._take_in(derived.queues, log.min_offset)
            self._scan(derived, log, log.min_offset, (found.end_offset, 0), found.end_offset)
        derived.queues.settle()

    def _take_in(self, queues: LiveQueues, before: int) -> set[str]:
        """Cuts all queues back to a physical offset. Returns the folders of those that have
        entries."""
        for queue in queues.discover():
            if queue.directory in self.report.removed_queues:
                queues.drop(queue)
            else:
                if is_damaged(queue):
                    queues.mend(queue)
                queues.take_in(queue, before, thorough=not self.report.was_clean)
        return {folder for folder, writer in queues.writers.items() if writer.report.next_offset >= 0}

    def _scan(
        self, derived: DerivedFiles, log: CommitLog, queues_from: int, index_from: tuple[int, int], end_offset: int
    ) -> None:
        start = min(queues_from, index_from[0])
        if start >= end_offset:
            return
        derived.is_deleted = self._is_deleted()
        for window in self._windows(derived.scanner, log, start):
            derived.put(window, queues_from=queues_from, index_from=index_from)
        derived.is_deleted = None

    def _windows(self, scanner: Scanner, log: CommitLog, start: int) -> Iterator[Window]:
        """Yields the windows of the log from an offset on. What the scan for the log's end has seen
        is taken from there, or scanned again without CRCs."""
        kept = self._kept
        if kept is None:
            yield from scanner.scan(log, start)
            return
        if start < kept.start:
            with closing(scanner.scan(log, start)) as windows:
                for window in windows:
                    if window.columns.position[0] >= kept.start:
                        break
                    yield window
                else:
                    return  # the log ends here for a scan from the start
        if start <= kept.start:
            yield from kept
        scanner.check_crcs(False)
        yield from scanner.scan(log, kept.end if start <= kept.start else start)
        scanner.check_crcs(True)

    def _core(self, files: LogFiles, reader: CommitLog, queues: LiveQueues, topics: Topics, found: _Found) -> StoreCore:
        """The state of the open store; all topics with queues are in topics.json then."""
        topics.require_all(queues.names.values(), self.clock_ms())
        core = StoreCore(
            self.paths,
            self.config,
            self.options,
            clock_ms=self.clock_ms,
            env=self.env,
            process_lock=self.lock,
            log=files,
            reader=reader,
            topics=topics,
            last_timestamp_ms=found.last_timestamp_ms,
        )
        core.queue_offsets = queues.next_offsets()
        return core


def _has_gap(queues: LiveQueues, before: set[str]) -> bool:
    """Whether a queue begins past offset 0 that had no entries `before`, or has a gap."""
    return any(
        writer.report.gaps or (folder not in before and writer.report.first_offset > 0)
        for folder, writer in queues.writers.items()
    )
