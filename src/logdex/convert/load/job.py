"""The import as a job: tasks write partitions or a store into the staging folder, and everything is
published at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import pyarrow as pa

from logdex.convert.export.manifest import exported_files, last_manifest
from logdex.convert.load.columns import USED, left_out, messages, of_clients, records, require_no_misspelt, to_deliver
from logdex.convert.load.in_order import Convert, Order, PlaceRows, joined, rows_as_they_come, rows_in_order
from logdex.convert.load.tables import TableFile, find_tables
from logdex.convert.new_directory import new_directory
from logdex.convert.partition_writer import PartitionWriter, join_directories
from logdex.convert.report import ConvertReport
from logdex.convert.translate.names import kafka_topic
from logdex.convert.translate.undelivered import Undelivered
from logdex.errors import UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath, path_text
from logdex.jobs.tasks import Count, LocalRunner, Runner
from logdex.jobs.work_time import work_seconds
from logdex.kafka.batch.record import Compression
from logdex.kafka.files.checkpoints import TopicPartition
from logdex.kafka.read.log_read import READ_COMMITTED
from logdex.primitives.shown import counted
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import PutMessageStatus

FORMATS = tuple(sorted(USED, reverse=True))


@dataclass(slots=True)
class Loaded:
    """What a task has written into a folder of its own. `unused` are the columns that have no place
    in the format."""

    folder: str
    messages: int = 0
    size_bytes: int = 0
    places: set[tuple[str, int]] = field(default_factory=set)
    unused: set[str] = field(default_factory=set)
    losses: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    control_records: int = 0
    """How many were left out."""
    transactional: int = 0
    """How many records are of transactions."""


def load(
    path: StrPath,
    output: StrPath,
    format_name: str,
    runner: Runner | None = None,
    *,
    engine: str = "local",
    compression: Compression = Compression.NONE,
    settings: Mapping[str, Any] | None = None,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> ConvertReport:
    """Writes the rows of the Parquet files at `path` as a new store or log directory of the format,
    in tasks on `runner` (in this process if it is None).

    The columns are those of an export; only `topic`, which a folder ``topic=NAME`` may state, is
    needed. `settings` are keyword arguments of `MessageStore.open`. Raises `UsageError` for columns
    of other types, and if it may not write to `output`, which must be empty.
    """
    started = work_seconds()
    if format_name not in FORMATS:
        raise UsageError(f"the format {format_name!r} is unknown", hint=f"choose from {', '.join(FORMATS)}")
    source, runner = env.real_path(path_text(path)), runner or LocalRunner()
    report, files = ConvertReport(engine), find_tables(source, env)
    for file in files:
        require_no_misspelt(file.path, file.names(env), format_name, has_topic=file.topic is not None)
    command = f"import --format {format_name}"
    with new_directory(command, source, output, sync=sync, env=env) as made:
        report.notes += made.notes + _notes_of_others(source, files, env)
        if format_name == "kafka":
            now_ms = time.time_ns() // 1_000_000
            kafka = partial(load_partitions, made.home, compression, now_ms, env)
            done = runner.run("logdex import", kafka, tasks_of(files))
            made.contents = f"{made.home}/joined"
            join_directories([each.folder for each in done], made.contents, env)
        else:
            store = partial(load_store, made.home, settings or {}, env)
            done = runner.run("logdex import", store, [tuple(files)])
            made.contents = done[0].folder
        report.losses = [loss for each in done for loss in each.losses]
        report.messages = sum(each.messages for each in done)
        report.files = sum(len(each.places) for each in done)
    report.notes += [note for each in done for note in each.notes]
    report.bytes = sum(file.size_bytes for file in files)
    unused = sorted(set().union(*(each.unused for each in done)))
    control = sum(each.control_records for each in done)
    if control:
        report.notes.append(f"{counted(control, 'control record')} left out: they end transactions")
    transactional = sum(each.transactional for each in done)
    if transactional and not _is_committed(source, env):
        report.notes.append(
            f"{counted(transactional, 'record')} of transactions, also of aborted ones, become ordinary records: "
            f"an export with --isolation-level {READ_COMMITTED} leaves out aborted ones"
        )
    if unused:
        report.notes.append(f"columns without a place in {format_name}: {', '.join(unused)}")
    report.tasks, report.seconds = runner.tasks, work_seconds() - started
    return report


def _is_committed(source: str, env: Env) -> bool:
    """Whether an export at a path has no records of aborted transactions."""
    found = last_manifest(source, env)
    return found is not None and found.filter.get("isolation_level") == READ_COMMITTED


def _notes_of_others(source: str, files: Sequence[TableFile], env: Env) -> list[str]:
    """Tells of files in an export that its manifests do not list."""
    found = exported_files(source, env)
    exported = None if found is None else {f"{source}/{file.name}" for file in found}
    others = [] if exported is None else [file.path for file in files if file.path not in exported]
    if not others:
        return []
    count = counted(len(others), "file")
    return [f"{count} in no manifest of the export, such as {others[0]}: their rows are imported too"]


def tasks_of(files: Sequence[TableFile]) -> list[tuple[TableFile, ...]]:
    """Returns the files by topic if their folders say it, else all in one task: two tasks must not
    write one partition."""
    if any(file.topic is None for file in files):
        return [tuple(files)]
    by_topic = sorted(files, key=lambda file: (file.topic or "", file.path))
    return [tuple(group) for _, group in groupby(by_topic, lambda file: file.topic)]


def load_partitions(
    home: str, compression: Compression, now_ms: int, env: Env, files: tuple[TableFile, ...], attempt: str, count: Count
) -> Loaded:
    """A task: writes the rows of some files as partitions, each in the order of its offsets."""
    done = Loaded(f"{home}/{attempt}")
    names: dict[str, str] = {}
    with PartitionWriter(done.folder, compression=compression, env=env) as writer:
        for found in _rows(files, "partition", ("offset",), partial(records, now_ms=now_ms), done, "kafka", count, env):
            for each in found:
                rows, offsets, transactional = of_clients(each.table, each.numbers)
                done.transactional += transactional
                done.control_records += len(each.table) - len(rows)
                if not len(rows):
                    continue
                topic, partition = each.place
                name = kafka_topic(topic)
                if names.setdefault(name, topic) != topic:
                    hint = "rename one, or import them one by one"
                    raise UsageError(f"the topics {topic} and {names[name]} both become {name}", hint=hint)
                writer.append(TopicPartition(name, partition), rows, offsets)
                done.places.add(each.place)
    done.messages -= done.control_records
    return done


def load_store(
    home: str, settings: Mapping[str, Any], env: Env, files: tuple[TableFile, ...], attempt: str, count: Count
) -> Loaded:
    """A task: puts the rows of all files into a new store, those of each queue in the order of
    their places in the log, or else in the queue. What an engine has yet to deliver is left
    out."""
    done, undelivered = Loaded(f"{home}/{attempt}"), Undelivered()
    queues, now_ms = dict[str, int](), time.time_ns() // 1_000_000
    convert = partial(messages, now_ms=now_ms)
    with MessageStore.open(done.folder, env=env, background=False, **settings) as store:
        for found in _rows(files, "queueId", ("physicalOffset", "queueOffset"), convert, done, "rocketmq", count, env):
            tables = []
            for each in found:
                topic, queue_id = each.place
                rows = to_deliver(topic, each.table, undelivered)
                done.messages -= len(each.table) - len(rows)
                if not len(rows):
                    continue
                tables.append(rows)
                if queue_id >= queues.get(topic, 0):
                    queues[topic] = queue_id + 1
                    store.create_topic(topic, queue_id + 1)
                done.places.add((topic, queue_id))
            if not tables:
                continue
            result = store.put_columns(joined(tables))
            if result.status is not PutMessageStatus.PUT_OK:
                hint = "mend these rows, or leave them out"
                raise UsageError(f"the engine refuses rows: {result.status.name}; {result.remark}", hint=hint)
            store.dispatch()
    done.losses += undelivered.losses
    done.notes += undelivered.notes
    return done


def _rows(
    files: Sequence[TableFile],
    place: str,
    by: Sequence[str],
    convert: Convert,
    done: Loaded,
    format_name: str,
    count: Count,
    env: Env,
) -> Iterator[list[PlaceRows]]:
    """Returns the rows of the files, in the order of the first column of `by` that they have, and
    else as they come. Raises `UsageError` if only some of them have it."""
    names, used = {file.path: file.names(env) for file in files}, USED[format_name]
    for each in names.values():
        done.unused.update(left_out(each, used))

    def read(batch: pa.RecordBatch, size_bytes: int) -> None:
        done.messages += len(batch)
        count(len(batch), size_bytes)

    for column in by:
        without = [path for path, each in names.items() if column not in each]
        if not without:
            order = Order(place, column, is_unique=column in used)
            return rows_in_order(files, order, convert, read, env)
        if len(without) < len(files) and column == by[-1]:
            hint = "give all files this column, or none"
            raise UsageError(f"{without[0]} has no column {column}, which other files have", hint=hint)
    return rows_as_they_come(files, place, convert, read, env)
