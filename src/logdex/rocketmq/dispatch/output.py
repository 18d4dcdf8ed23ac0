"""The files that a dispatch writes: opened where an earlier run ended, also a killed one.

After a kill the ConsumeQueues are cut back to the position in the journal, and the IndexFiles that
were not full then are derived again, as a `MessageStore` does when it is opened.
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from logdex.errors import CorruptError, MissingFileError, UsageError, VanishedError
from logdex.io.env import Env
from logdex.jobs.dispatching import lock_output
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.dispatch.deleted_topics import DeletedTopics
from logdex.rocketmq.dispatch.journal import DispatchJournal
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR, INDEX_DIR, StorePaths
from logdex.rocketmq.index_file.derive import IndexWindow
from logdex.rocketmq.message_store.derived.checkpoint import LiveCheckpoint
from logdex.rocketmq.message_store.derived.dispatch import DerivedFiles
from logdex.rocketmq.message_store.derived.index import LiveIndex, find_start
from logdex.rocketmq.message_store.derived.queues import LiveQueues
from logdex.rocketmq.rebuild.parts import PartScan
from logdex.rocketmq.rebuild.stage import StageReader
from logdex.rocketmq.scan.log_walk import readable
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import TimeZone


class DispatchOutput:
    """The ConsumeQueues and IndexFiles below `directory`, which follow `log`, the log of the store
    at `root`. `position` is the physical offset up to which messages were added. For one thread.

    Raises `LogInUseError` if another dispatch writes there, and `UsageError` if something else did.
    """

    def __init__(
        self, root: str, directory: str, log: CommitLog, config: StoreConfig, zone: TimeZone, env: Env
    ) -> None:
        self.directory = directory
        self._root, self._log, self._config, self._zone, self._env = root, log, config, zone, env
        self._paths = StorePaths(directory)
        self._lock = lock_output(directory, env)
        try:
            self._begin(self._first_journal())
        except BaseException:
            self._lock.release()
            raise

    # -- opening ----------------------------------------------------------------------------------
    def _first_journal(self) -> DispatchJournal:
        journal = DispatchJournal.read(self.directory, self._env)
        derived = (self._paths.consume_queue, self._paths.index)
        if journal is None and any(self._env.is_dir(path) and self._env.list_dir(path) for path in derived):
            raise UsageError(
                f"{self.directory} has files that no dispatch wrote", hint="give an output that is empty, or new"
            )
        if journal is None or not self._is_of_this_log(journal):
            return self._from_the_start()
        return journal

    def _from_the_start(self) -> DispatchJournal:
        """Removes what there is, because it is of another log, or of none. Killed meanwhile, the
        next run does this again."""
        DispatchJournal(-1).write(self.directory, self._env)
        for name in (CONSUME_QUEUE_DIR, INDEX_DIR):
            if self._env.is_dir(f"{self.directory}/{name}"):
                self._env.remove_tree(f"{self.directory}/{name}")
        return DispatchJournal(self._log.min_offset)

    def _is_of_this_log(self, journal: DispatchJournal) -> bool:
        begin = self._log.min_offset
        if journal.position < begin or DeletedTopics(self._root, journal.left_out, self._env).has_one_back():
            return False
        if journal.last < 0:
            return journal.position == begin
        return journal.last < begin or self._crc_at(journal.last) == journal.last_crc

    def _crc_at(self, offset: int) -> int | None:
        """Returns the CRC-32 of all bytes of the message at an offset, None if none is there."""
        message = readable(self._log, offset)
        try:
            return None if message is None else zlib.crc32(self._log.read(offset, message.size_bytes))
        except (CorruptError, MissingFileError):
            return None

    def mismatch(self) -> str | None:
        """Returns why the output must be opened anew, in words: the log, as it is now, is not the
        one that was dispatched. Returns None if it has only grown or lost old files."""
        begin = self._log.min_offset
        if self.position < begin:
            return f"the log begins behind offset {self.position} now: what was there is removed"
        if self.last >= begin and self._crc_at(self.last) != self._last_crc:
            return f"the log was cut off before offset {self.position}: what was there is removed"
        if self._topics.have_changed(topic for topic, _ in self._queues.names.values()):
            return "topics were deleted or made again: queues are removed, or derived again"
        return None

    def still_holds(self) -> bool:
        """Whether the last message that was added is still in the log, unless a broker has removed
        it because it was old. Where it is not, the log was cut, and what was read since may be of
        what has grown there."""
        if self.last < self._log.min_offset:
            return True
        self._log.close()  # a recovering broker creates new files under the same names
        return self._crc_at(self.last) == self._last_crc or self._log.has_expired(self.last)

    def _begin(self, journal: DispatchJournal) -> None:
        paths, config, env = self._paths, self._config, self._env
        self._queues, self._topics = LiveQueues(paths, config, env), DeletedTopics(self._root, journal.left_out, env)
        queues = self._queues.discover()
        deleted = [queue for queue in queues if self._topics.is_deleted(queue.topic)]
        self._journal = replace(journal, is_clean=False, left_out=self._topics.names)
        self._journal.write(self.directory, env)
        for path in (paths.consume_queue, paths.index):
            env.make_dirs_durably(path)
        self.position, self.last, self._last_crc = journal.position, journal.last, journal.last_crc
        self._index_ms = journal.index_ms
        trusted_ms = None if journal.is_clean else journal.index_ms
        start = find_start(paths, self._log, self.position, config, trusted_ms, env)
        for queue in queues:
            if queue in deleted:
                self._queues.drop(queue)
            else:
                self._queues.take_in(queue, self.position, thorough=not journal.is_clean)
        self._index = LiveIndex(paths, config, LiveCheckpoint(paths.checkpoint, env), start, env, zone=self._zone)
        self._derived = DerivedFiles(self._queues, self._index, config, env)
        self._derived.is_deleted = self._topics.is_deleted
        self._derived.scanner = self.scanner = Scanner(config, env=env, unreadable_is_damage=True)
        self._index_from = (start.offset, start.keys_done)
        self._catch_up_index()

    def _catch_up_index(self) -> None:
        """Adds the keys of messages before `position` that the kept IndexFiles do not have."""
        begin = self._index_from[0]
        for file in self._log.files:
            if file.end_offset <= begin or file.start_offset >= self.position:
                continue
            first = max(begin, file.start_offset) - file.start_offset
            stop = min(self.position - file.start_offset, file.size_bytes)
            try:
                for window in self.scanner.scan_file(file, first, stop):
                    self._derived.put(window, queues_from=self.position, index_from=self._index_from)
            except VanishedError:
                if not self._log.was_trimmed(file.start_offset):
                    raise
        if begin < self.position:
            self._index_from = (self.position, 0)

    # -- adding -----------------------------------------------------------------------------------
    def put(self, window: Window) -> None:
        """Adds the entries of a window of `scanner`, which begins at `position` or behind it."""
        self._derived.put(window, index_from=self._index_from)
        last = window.count - 1
        self.last, self._last_crc = int(window.columns.position[last]), window.last_crc()
        self.position = self.last + int(window.columns.size[last])
        self._note_rolled()

    def put_stage(self, scan: PartScan) -> None:
        """Adds the entries of a part of the log that a task has scanned."""
        if scan.stage is None or not scan.messages:
            return
        start = scan.part.file.start_offset
        names = {number: name for name, (number, _) in scan.queues.items()}
        with StageReader(scan.stage, self._env) as stage:
            for window in stage.index_windows():
                self._put_keys(window)
                self.last = int(window.physical_offset[-1])
            for number, offsets, entries in stage.queue_runs(names):
                if not self._topics.is_deleted(names[number].topic):
                    self._queues.put(*names[number], offsets.copy(), entries.copy())
        self.position, self._last_crc = start + scan.behind, scan.last_crc
        self._note_rolled()

    def _put_keys(self, window: IndexWindow) -> None:
        first = int(np.searchsorted(window.physical_offset, self._index_from[0]))
        if first < len(window.physical_offset):
            key = int(window.key_end[first - 1]) if first else 0
            done = self._index_from[1] if window.physical_offset[first] == self._index_from[0] else 0
            self._index.put(window, first, key + done)

    def skip_to(self, offset: int) -> None:
        """Notes that no message begins before an offset, that of the next file."""
        self.position = max(self.position, offset)

    def _note_rolled(self) -> None:
        rolled_ms = self._index.rolled_timestamp_ms()
        if rolled_ms is not None:
            self._index_ms = rolled_ms

    # -- durability -------------------------------------------------------------------------------
    def flush(self) -> None:
        """Writes everything so far to disk, and the journal, so that a killed run goes on from
        here. While it is open whether a queue begins anew, the journal stays before the entry in
        question. It also stays where the log was cut before what was added."""
        if self._is_undecided or not self.still_holds():
            return
        self._queues.flush()
        self._index.sync()
        self._write_journal(self.position, is_clean=False)

    @property
    def _is_undecided(self) -> bool:
        return any(writer.is_undecided for writer in self._queues.writers.values())

    def _write_journal(self, position: int, *, is_clean: bool) -> None:
        found = DispatchJournal(position, self.last, self._last_crc, self._index_ms, is_clean, self._topics.names)
        if found != self._journal:
            found.write(self.directory, self._env)
            self._journal = found

    def close(self) -> None:
        """Completes all files, which are on disk then. A queue of which it is open whether it
        begins anew is decided as at the end of a log; then the next run begins from the start."""
        undecided = self._is_undecided
        self._queues.settle()
        self._queues.flush()
        self._index.finish()
        self._write_journal(-1 if undecided else self.position, is_clean=not undecided)
        self.abandon()

    def abandon(self) -> None:
        """Closes all files without completing them."""
        self._queues.close_files()
        self._index.close_files()
        self._lock.release()
