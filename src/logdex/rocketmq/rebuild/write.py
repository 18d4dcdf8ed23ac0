"""From the parts of a log to its derived files: plans which task writes which file, and writes it
from the stage files.

Prefix sums over the parts' counts give the position of each entry: an IndexFile takes
`max_index_num` - 1 entries, wherever parts and messages begin. Each attempt at a task writes below
its own directory, and the caller publishes those of the finished attempts.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.consume_queue.writer import ConsumeQueueSet, QueueReport
from logdex.rocketmq.files.known_topics import KnownTopics
from logdex.rocketmq.files.store_files import queue_folder
from logdex.rocketmq.index_file.derive import IndexWindow
from logdex.rocketmq.index_file.writer import IndexFilesWriter, IndexTarget
from logdex.rocketmq.rebuild.parts import PartScan, WholeLog
from logdex.rocketmq.rebuild.stage import StageFile, StageReader
from logdex.rocketmq.scan.topic_table import QueueName
from logdex.rocketmq.settings.store_config import StoreConfig

QUEUE_TASKS_PER_CORE = 1


@dataclass(frozen=True, slots=True)
class IndexTask:
    """One IndexFile, with its `number` in the order of rolling.

    Its entries begin after key number `previous_key` of the first of `stages`, which is the last
    entry of the previous file. -1 means that they begin with the log.
    """

    number: int
    stages: tuple[StageFile, ...]
    previous_key: int


@dataclass(frozen=True, slots=True)
class IndexDone:
    """A finished IndexFile at `path`, with the store time that its name is made from and the number
    of its entries."""

    number: int
    path: str
    first_store_timestamp_ms: int
    entries: int


@dataclass(slots=True)
class QueueTask:
    """All files of some queues: for each stage file with entries of these queues, number in the
    stage file → queue."""

    stages: list[tuple[StageFile, dict[int, QueueName]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QueuesDone:
    """The finished files of queues: their folders below `directory`, a report per queue, and the
    number of files."""

    directory: str
    queues: dict[str, QueueReport]
    files: int


def plan_index(log: WholeLog, config: StoreConfig) -> list[IndexTask]:
    """Returns one task per IndexFile. This includes the empty file of a log without keys, and the
    one to which the engine rolls for a message after the last entry."""
    scans = [scan for scan in log.scans if scan.messages]
    if not scans:
        return []
    per_file = config.max_index_num - 1
    ends = np.cumsum([scan.keys for scan in scans]).tolist()
    total = ends[-1]
    files = max(-(-total // per_file), 1)
    if total == files * per_file and _keyless_tail(scans):
        files += 1
    tasks = []
    for number in range(files):
        first, last = number * per_file, min((number + 1) * per_file, total)
        # From the part with the previous file's last entry, whose message may have more keys in
        # this file, to the part with this file's last entry. The last file takes all parts to the
        # end, because messages without keys count.
        begin = int(np.searchsorted(ends, first - 1, side="right")) if first else 0
        end = len(scans) if number == files - 1 else int(np.searchsorted(ends, last - 1, side="right")) + 1
        before = ends[begin - 1] if begin else 0
        stages = tuple(scan.stage for scan in scans[begin:end] if scan.stage is not None)
        tasks.append(IndexTask(number, stages, first - 1 - before if first else -1))
    return tasks


def _keyless_tail(scans: list[PartScan]) -> int:
    """Returns the number of messages after the last one that has keys."""
    count = 0
    for scan in reversed(scans):
        count += scan.keyless_messages
        if scan.keys:
            break
    return count


def write_index_file(
    task: IndexTask, config: StoreConfig, directory: str, *, sync: bool, env: Env = DEFAULT_ENV
) -> IndexDone:
    """Writes one IndexFile into a new directory, under a temporary name."""
    env.make_dirs(directory)
    path = f"{directory}/{task.number:08d}"
    times: list[int] = []

    def target(first_store_timestamp_ms: int) -> IndexTarget:
        times.append(first_store_timestamp_ms)
        return IndexTarget(path, config, env=env, sync=sync)

    previous, window, place = _begin_of(task, env)
    with IndexFilesWriter(config, target, previous=previous, max_files=1) as deriver:
        for stage in task.stages:
            with StageReader(stage, env) as reader:
                for index in reader.index_windows(window):
                    if deriver.put(index, *place) < (len(index.physical_offset), len(index.key_hash)):
                        break  # the file is full
                    place = 0, 0
            window = 0
    return IndexDone(task.number, path, times[0], max(deriver.headers[0].index_count - 1, 0))


def _begin_of(task: IndexTask, env: Env) -> tuple[tuple[int, int] | None, int, tuple[int, int]]:
    """Returns the (end timestamp, end physical offset) of the previous file, the window of the
    first stage file to continue with, and the (message, key) in that window."""
    if task.previous_key < 0:
        return None, 0, (0, 0)
    with StageReader(task.stages[0], env) as reader:
        window, key = reader.window_of_key(task.previous_key)
        previous, place = _behind(next(reader.index_windows(window)), key)
    return previous, window, place


def _behind(window: IndexWindow, key: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the (time, physical offset) of the message that has key number `key`, and the next
    (message, key)."""
    message = int(np.searchsorted(window.key_end, key, side="right"))
    previous = int(window.store_timestamp_ms[message]), int(window.physical_offset[message])
    return previous, (message + (key + 1 >= int(window.key_end[message])), key + 1)


@dataclass(slots=True)
class LeftOut:
    """The number of entries per queue that is not written: `skipped` ones have a topic that cannot
    be the name of a folder, `deleted` ones a topic that the broker has deleted."""

    skipped: dict[QueueName, int] = field(default_factory=dict)
    deleted: dict[QueueName, int] = field(default_factory=dict)


def plan_queues(log: WholeLog, tasks_max: int, known: KnownTopics) -> tuple[list[QueueTask], LeftOut]:
    """Returns tasks of about equal work, each for some whole queues, and the queues that are left
    out."""
    left_out = LeftOut()
    is_deleted = cache(known.is_deleted)
    entries: dict[str, int] = {}
    folders: dict[QueueName, str] = {}
    for scan in log.scans:
        for name, (_, count) in scan.queues.items():
            folder = folders.get(name) or queue_folder(*name)
            if folder is None:
                left_out.skipped[name] = left_out.skipped.get(name, 0) + count
            elif is_deleted(name.topic):
                left_out.deleted[name] = left_out.deleted.get(name, 0) + count
            else:
                # Topics that are not UTF-8 may share a folder, and then must share a task.
                folders[name] = folder
                entries[folder] = entries.get(folder, 0) + count
    tasks = [QueueTask() for _ in range(min(tasks_max, len(entries)))]
    loads = [(0, number) for number in range(len(tasks))]
    task_of: dict[str, int] = {}
    for folder in sorted(entries, key=lambda name: -entries[name]):
        load, number = heapq.heappop(loads)
        task_of[folder] = number
        heapq.heappush(loads, (load + entries[folder], number))
    for scan in log.scans:
        numbers: dict[int, dict[int, QueueName]] = {}
        for name, (number, _) in scan.queues.items():
            if name in folders:
                numbers.setdefault(task_of[folders[name]], {})[number] = name
        for task, queues in numbers.items():
            assert scan.stage is not None  # it has entries
            tasks[task].stages.append((scan.stage, queues))
    return tasks, left_out


def write_queues(
    task: QueueTask, config: StoreConfig, directory: str, *, sync: bool, env: Env = DEFAULT_ENV
) -> QueuesDone:
    """Writes the files of some queues below a new directory."""
    queues = ConsumeQueueSet(
        *(directory, config.consume_queue_file_size_bytes, env),
        sync=sync,
        first_log_file_end=config.mapped_file_size_commit_log,
    )
    try:
        for stage, names in task.stages:
            with StageReader(stage, env) as reader:
                for number, offsets, entries in reader.queue_runs(names):
                    queues.put(*names[number], offsets, entries)
        files = queues.close()
    finally:
        queues.output.abandon()
    return QueuesDone(directory, {folder: writer.report for folder, writer in queues.writers.items()}, files)
