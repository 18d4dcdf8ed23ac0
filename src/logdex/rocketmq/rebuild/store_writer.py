"""Writes all derived files of one store, from the windows of a scan."""

from __future__ import annotations

from functools import cache
from types import TracebackType

from logdex.io.env import Env
from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
from logdex.rocketmq.consume_queue.writer import ConsumeQueueSet
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.rocketmq.index_file.derive import IndexWindow, index_file_name
from logdex.rocketmq.index_file.writer import IndexFilesWriter, IndexTarget
from logdex.rocketmq.rebuild.report import RebuildReport
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.settings.time_zone import TimeZone


class StoreWriter:
    """Writes the derived files of one store below `directory`, from windows in log order, but for
    the queues of topics that are deleted according to `known`. IndexFiles are named by times in
    `zone`. For one thread.

    A context manager: after an error it closes its files without completing them.
    """

    def __init__(
        self, directory: str, config: StoreConfig, env: Env, *, sync: bool, known: KnownTopics, zone: TimeZone
    ) -> None:
        self._is_deleted = cache(known.is_deleted)
        self._deleted: dict[bytes, int] = {}
        self._directory = directory
        self._config = config
        self._env = env
        self._sync = sync
        self._deriver = ConsumeQueueDeriver()
        self._zone = zone
        self._trimmed = 0
        self._begin()

    def _begin(self) -> None:
        self._last_name: str | None = None
        self.queues = ConsumeQueueSet(
            f"{self._directory}/{CONSUME_QUEUE_DIR}",
            self._config.consume_queue_file_size_bytes,
            self._env,
            sync=self._sync,
            first_log_file_end=self._config.mapped_file_size_commit_log,
        )
        self.index = IndexFilesWriter(self._config, self._next_index_file)
        for name in (CONSUME_QUEUE_DIR, INDEX_DIR):
            self._env.make_dirs(f"{self._directory}/{name}")

    def _begin_anew(self) -> None:
        """Removes what was written: the log begins later now."""
        self._abandon()
        for name in (CONSUME_QUEUE_DIR, INDEX_DIR):
            self._env.remove_tree(f"{self._directory}/{name}")
        self._deleted.clear()
        self._begin()

    def _next_index_file(self, first_store_timestamp_ms: int) -> IndexTarget:
        self._last_name = index_file_name(first_store_timestamp_ms, self._last_name, self._zone)
        path = f"{self._directory}/{INDEX_DIR}/{self._last_name}"
        return IndexTarget(path, self._config, env=self._env, sync=self._sync)

    def put(self, window: Window, scanner: Scanner) -> None:
        """Derives the entries of one window and writes them. If the broker has removed files before
        it since the last window, everything before them is removed as well, and the files begin
        with this window."""
        if len(scanner.trimmed) > self._trimmed:
            self._trimmed = len(scanner.trimmed)
            self._begin_anew()
        names = scanner.table.queues
        for number, offsets, entries in self._deriver.derive(window, scanner.table):
            name = names[number]
            if self._is_deleted(name.topic):
                self._deleted[name.topic] = self._deleted.get(name.topic, 0) + len(offsets)
            else:
                self.queues.put(*name, offsets, entries)
        self.index.put(index_window(window))

    def finish(self, report: RebuildReport) -> None:
        """Completes and closes all files, after an fsync if `sync` was given, and fills in the
        report."""
        files = self.queues.close()
        self.index.finish()
        headers = self.index.headers
        report.index_files, report.files = len(headers), files + len(headers)
        report.index_entries = sum(max(header.index_count - 1, 0) for header in headers)
        for folder, writer in self.queues.writers.items():
            report.note_queue(folder, writer.report)
        for topic, entries in self._deleted.items():
            report.note_deleted(topic, entries)
        report.note_delay_levels(self.queues.writers, self._config)
        for (topic, queue_id), entries in self.queues.skipped.items():
            report.note_skipped(topic, queue_id, entries)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abandon()

    def _abandon(self) -> None:
        self.queues.output.abandon()
        self.index.abandon()


def index_window(window: Window) -> IndexWindow:
    """Returns the part of a window from which IndexFiles are derived."""
    c, n = window.columns, window.count
    return IndexWindow(c.position[:n], c.store_timestamp_ms[:n], c.key_end[:n], c.key_hash[: window.key_count])
