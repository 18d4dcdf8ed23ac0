"""Rebuilding every ConsumeQueue file and IndexFile of a store from its CommitLog alone, in this process.

The Spark job (`logdex.spark.rebuild`) runs the same derivations over parts of the log and ends with the same report.
"""

from __future__ import annotations

import builtins
import posixpath
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import TracebackType

from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs import reports
from logdex.jobs.reports import Progress
from logdex.jobs.staging import PREFIX as STAGING_PREFIX
from logdex.jobs.staging import Staging
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
from logdex.rocketmq.consume_queue.writer import ConsumeQueueSet, QueueReport
from logdex.rocketmq.files.broker_lock import broker_lock
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.rocketmq.index_file.derive import IndexWindow, index_file_name
from logdex.rocketmq.index_file.writer import IndexFilesWriter, IndexTarget
from logdex.rocketmq.scan.scanner import LogEnd, Scanner, Window
from logdex.rocketmq.settings.store_config import StoreConfig


@dataclass(slots=True)
class RebuildReport(reports.RebuildReport):
    """What a rebuild of a store did; `kept` names directories."""

    queues: int = 0
    queue_entries: int = 0
    index_files: int = 0
    index_entries: int = 0
    pre_blank_gaps: int = 0
    end: str = ""
    end_offset: int = 0

    def note_end(self, end: LogEnd) -> None:
        """Takes over where the log ends; an end that is not clean is a loss."""
        self.end, self.end_offset = end.kind.value, end.offset
        if not end.is_clean:
            where = end.reason if end.error is not None else f"{end.path}: byte {end.position}: {end.reason}"
            self.losses.append(f"the log ends at offset {end.offset}: {where}")

    def note_queue(self, folder: str, queue: QueueReport) -> None:
        """Takes over one queue's counts."""
        self.queues += 1
        self.queue_entries += queue.entries
        self.pre_blank_gaps += queue.gaps
        if queue.repeated:
            self.losses.append(f"{folder}: {queue.repeated} entries left out, their queue offset was there already")
        if queue.implausible:
            self.losses.append(f"{folder}: {queue.implausible} entries left out, their queue offset cannot be")

    def note_skipped(self, topic: builtins.bytes, queue_id: int, entries: int) -> None:
        """Takes over a queue that no folder can be named for."""
        self.losses.append(
            f"topic {topic!r} queue {queue_id}: {entries} entries left out, no folder can have that name"
        )


@contextmanager
def output_of(root: str, output: str, *, in_place: bool, sync: bool, env: Env) -> Iterator[Staging]:
    """The staging folder of a rebuild; with `in_place`, which a running broker refuses, while its store is locked."""
    with broker_lock(root, env=env) if in_place else nullcontext(), Staging(env, output, sync=sync) as staging:
        yield staging


def check_output(root: str, output: str, *, in_place: bool, env: Env) -> None:
    """Refuses an output in the store unless `in_place`, and one that the store itself would be replaced in."""
    if in_place and env.is_file(root):
        raise UsageError(f"--in-place needs a store, and {root} is one file", hint="say --output DIR, or give the root")
    store, target = _store_of(env.real_path(root), env), env.real_path(output)
    inside = posixpath.commonpath([store, target]) == store
    if in_place and store != target:
        raise UsageError("--in-place writes into the store itself", hint="leave out --output")
    if posixpath.commonpath([store, target]) == target and store != target:
        name = posixpath.relpath(store, target).split("/")[0]
        if name in (CONSUME_QUEUE_DIR, INDEX_DIR) or name.startswith(STAGING_PREFIX):
            raise UsageError(f"{output} holds the store as {name}", hint="choose another --output")
    if inside and not in_place:
        raise UsageError(
            f"{output} lies in the store",
            hint="choose another --output" + ("" if env.is_file(root) else ", or say --in-place"),
        )


def _store_of(root: str, env: Env) -> str:
    """The store; of a CommitLog file the one that it lies in: what was derived from one file must not replace that."""
    folder = posixpath.dirname(root)
    lies_in_store = env.is_file(root) and posixpath.basename(folder) == COMMIT_LOG_DIR
    return posixpath.dirname(folder) if lies_in_store else root


def output_size_bytes(log_bytes: int, config: StoreConfig) -> int:
    """A guess of the disk space that a rebuild takes, on the high side: for messages of 200 bytes with three keys."""
    messages = log_bytes // 200 + 1
    return messages * (20 + 3 * 20) + 4 * config.max_hash_slot_num


class StoreWriter:
    """The derived files of one store being written below `directory`; takes windows in log order. One thread.

    A context manager: on an error it closes its files as they are.
    """

    def __init__(self, directory: str, config: StoreConfig, env: Env, *, sync: bool) -> None:
        self._directory = directory
        self._config = config
        self._env = env
        self._sync = sync
        self._deriver = ConsumeQueueDeriver()
        self._last_name: str | None = None
        self.queues = ConsumeQueueSet(
            f"{directory}/{CONSUME_QUEUE_DIR}", config.consume_queue_file_size_bytes, env, sync=sync
        )
        self.index = IndexFilesWriter(config, self._next_index_file)
        env.make_dirs(f"{directory}/{CONSUME_QUEUE_DIR}")
        env.make_dirs(f"{directory}/{INDEX_DIR}")

    def _next_index_file(self, first_store_timestamp_ms: int) -> IndexTarget:
        self._last_name = index_file_name(first_store_timestamp_ms, self._last_name)
        path = f"{self._directory}/{INDEX_DIR}/{self._last_name}"
        return IndexTarget(path, self._config, env=self._env, sync=self._sync)

    def put(self, window: Window, scanner: Scanner) -> None:
        """Derives one window's entries and writes them."""
        names = scanner.table.queues
        for number, offsets, entries in self._deriver.derive(window, len(names)):
            self.queues.put(*names[number], offsets, entries)
        self.index.put(index_window(window))

    def finish(self, report: RebuildReport) -> None:
        """Closes (and syncs) all files and fills in the report."""
        files = self.queues.close()
        self.index.finish()
        headers = self.index.headers
        report.index_files, report.files = len(headers), files + len(headers)
        report.index_entries = sum(max(header.index_count - 1, 0) for header in headers)
        for folder, writer in self.queues.writers.items():
            report.note_queue(folder, writer.report)
        for (topic, queue_id), entries in self.queues.skipped.items():
            report.note_skipped(topic, queue_id, entries)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.queues.output.abandon()
            self.index.__exit__(kind, error, trace)


def index_window(window: Window) -> IndexWindow:
    """The part of a window that IndexFiles are made of."""
    c, n = window.columns, window.count
    return IndexWindow(c.position[:n], c.store_timestamp_ms[:n], c.key_end[:n], c.key_hash[: window.key_count])


def rebuild(
    root: str,
    output: str,
    config: StoreConfig,
    *,
    in_place: bool = False,
    sync: bool = True,
    progress: Progress | None = None,
    env: Env = DEFAULT_ENV,
) -> RebuildReport:
    """Derives ``OUTPUT/consumequeue`` and ``OUTPUT/index`` from ``ROOT/commitlog``, or from ROOT where that is one
    CommitLog file; nothing in ROOT is written.

    Staged and published at the end; safe to run again after a kill. `sync` False leaves out every fsync.
    """
    started = time.perf_counter()
    check_output(root, output, in_place=in_place, env=env)
    log = CommitLog.of_store(root, file_size_bytes=config.mapped_file_size_commit_log, env=env)
    env.require_free(output, output_size_bytes(log.size_bytes, config))
    report = RebuildReport("local", assumed=list(config.assumed))
    scanner = Scanner(config, env=env)
    with output_of(root, output, in_place=in_place, sync=sync, env=env) as staging:
        with StoreWriter(staging.directory, config, env, sync=sync) as writer:
            for window in scanner.scan(log):
                writer.put(window, scanner)
                if progress is not None:
                    last = window.count - 1
                    done = int(window.columns.position[last]) + int(window.columns.size[last]) - log.min_offset
                    progress(scanner.messages, done)
            writer.finish(report)
        report.kept = staging.publish([CONSUME_QUEUE_DIR, INDEX_DIR])
    end = scanner.end
    assert end is not None  # the scan ran to its end
    report.note_end(end)
    report.messages, report.bytes = scanner.messages, end.offset - log.min_offset
    report.seconds = time.perf_counter() - started
    return report
