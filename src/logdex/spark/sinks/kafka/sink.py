"""Rows of a DataFrame as records of a Kafka log directory."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.columns.rows import require_columns, require_topic, times_ms, topics_of, typed
from logdex.convert.open_logs import OpenLogs
from logdex.errors import UsageError
from logdex.formats import FORMATS
from logdex.io.env import DEFAULT_ENV, Env
from logdex.kafka.columns.encode_input import headers_type
from logdex.kafka.directory.log_lock import DirectoryLock
from logdex.kafka.directory.new_log_directory import make_log_directory, may_become_log_directory
from logdex.kafka.files.file_names import parse_partition_dir, require_topic_name
from logdex.kafka.log.log import Log
from logdex.primitives.murmur2 import murmur2_of_all, partitions_of_keys
from logdex.primitives.wrong_questions import unknown_part
from logdex.spark.sinks.commit import Destination
from logdex.spark.sinks.sink import SINK_OPTIONS, directory_of
from logdex.spark.sources.options import Options, format_settings

FORMAT = FORMATS["kafka"]
OPTIONS = (*SINK_OPTIONS, "compression", "partitions", *format_settings(FORMAT))
_KINDS = {"key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "headers": headers_type()}
TAKEN = ("topic", *_KINDS, "timestamp")
IGNORED = (
    *("offset", "timestampType", "producerId", "producerEpoch", "sequence", "leaderEpoch"),
    *("isTransactional", "isControl", "logDir"),
)
"""The columns of the source that a log gives to each record itself, or that are about producers."""

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Ints = npt.NDArray[np.int32]


class LogDirSink:
    """A log directory, or one partition of its own. See `Sink`."""

    def __init__(self, given: Mapping[str, str], columns: tuple[str, ...]) -> None:
        options = Options("kafka_log", given, OPTIONS)
        require_columns(columns, TAKEN, IGNORED)
        if "value" not in columns:
            raise UsageError("a column value is missing", hint="name the column with the records' bytes so")
        self.directory = directory_of(options, FORMAT.name)
        self._topic = options.text("topic")
        self._partitions = options.integer("partitions", 1)
        self._compression = options.choice("compression", _CODECS, "none")
        self._settings: dict[str, Any] = options.settings(FORMAT)
        self._lone = parse_partition_dir(posixpath.basename(self.directory))
        if self._lone is None:
            require_topic(columns, self._topic)
        elif self._topic not in (None, self._lone.topic):
            raise options.wrong("topic", f"the directory is a partition of {self._lone.topic}")

    # -- rows -------------------------------------------------------------------------------------
    def prepared(self, batches: Iterator[pa.RecordBatch], task: int, now_ms: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows with the columns of `Log.append_columns`, and the name of the partition
        that each goes to."""
        counts: dict[str, int] = {}
        for number, batch in enumerate(batches):
            found = {name: typed(batch, name, _KINDS) for name in _KINDS}
            keys = found["key"] if found["key"] is not None else pa.nulls(len(batch), pa.binary())
            columns = {
                "log": self._logs(batch, keys, found["partition"], task + number, counts),
                "key": keys,
                "value": found["value"],
                "timestamp_ms": times_ms(batch, "timestamp", now_ms),
            }
            if found["headers"] is not None:
                columns["headers"] = found["headers"].fill_null(pa.scalar([], headers_type()))
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def _logs(
        self, batch: pa.RecordBatch, keys: pa.Array, given: pa.Array | None, turn: int, counts: dict[str, int]
    ) -> pa.Array:
        """Returns the name of each row's partition: as given, by the hash of the key as a producer
        chooses it, or, without a key, one after the other per batch of rows."""
        if self._lone is not None:
            return pa.repeat(pa.scalar(posixpath.basename(self.directory), pa.string()), len(batch))
        topics = topics_of(batch, self._topic)
        for topic in pc.unique(topics).to_pylist():
            require_topic_name(topic)
        if given is not None and (least := pc.min(given).as_py()) is not None and least < 0:
            raise UsageError(f"the column partition has {least}", hint="0 is the first partition; null chooses one")
        chosen = self._chosen(topics, keys, turn, counts)
        partitions = chosen if given is None else pc.coalesce(given, chosen)
        return pc.binary_join_element_wise(topics, partitions.cast(pa.string()), "-")

    def _chosen(self, topics: pa.Array, keys: pa.Array, turn: int, counts: dict[str, int]) -> pa.Array:
        hashes = _hashes(keys)
        partitions = np.zeros(len(topics), np.int32)
        for topic in pc.unique(topics).to_pylist():
            if topic not in counts:
                counts[topic] = len(known_partitions(self.directory, topic)) or self._partitions or 1
            rows = np.flatnonzero(pc.equal(topics, topic).to_numpy(zero_copy_only=False))
            partitions[rows] = partitions_of_keys(hashes[rows], counts[topic])
            keyless = rows[keys.is_null().to_numpy(zero_copy_only=False)[rows]]
            partitions[keyless] = turn % counts[topic]
        return pa.array(partitions)

    # -- logs -------------------------------------------------------------------------------------
    @contextmanager
    def open(self, env: Env = DEFAULT_ENV) -> Iterator[Destination]:
        """Opens logs as they are needed, under the lock of the directory."""
        env.make_dirs_durably(self.directory)
        with ExitStack() as stack:
            if self._lone is None:
                lock = DirectoryLock(self.directory, env=env)
                stack.callback(lock.release)  # the last to release it restores the clean mark
                with lock.guard:
                    if not lock.notes and may_become_log_directory(self.directory, env=env):
                        make_log_directory(self.directory, env=env)
            count = 0 if self._lone is not None else self._partitions
            logs = LogDirDestination(self.directory, self._compression, self._settings, env, partitions=count)
            stack.callback(logs.close)
            if self._lone is not None:
                logs.log(posixpath.basename(self.directory))
            yield logs


def known_partitions(directory: str, topic: str, env: Env = DEFAULT_ENV) -> range:
    """Returns the partitions of a topic: all up to the last one that is there."""
    names = env.list_dir(directory) if env.is_dir(directory) else []
    parsed = [parse_partition_dir(name) for name in names]
    found = [each.partition for each in parsed if each is not None and each.topic == topic and not each.mark]
    return range(max(found, default=-1) + 1)


def _hashes(keys: pa.Array) -> npt.NDArray[np.uint32]:
    filled = keys.fill_null(b"").cast(pa.large_binary())
    _, offsets, data = filled.buffers()
    places = np.frombuffer(offsets, np.int64, len(filled) + 1, 8 * filled.offset)
    return murmur2_of_all(
        np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8), places
    )


_NO_BOUNDS = {"message_timestamp_before_max_ms": -1, "message_timestamp_after_max_ms": -1}
"""Rows keep their times, however far they are from now: a commit comes too late to refuse some."""


class LogDirDestination:
    """The logs of a directory. See `Destination`."""

    def __init__(
        self, directory: str, compression: str, settings: dict[str, Any], env: Env, *, partitions: int | None
    ) -> None:
        """`partitions` is how many a topic that is new gets, None for as many as its rows name, and
        0 if the directory is a partition itself."""
        self._directory, self._partitions = directory, partitions
        self._compression, self._settings = compression, settings
        self._env = env
        self._logs = OpenLogs(self._open, env)

    def log(self, name: str) -> Log:
        """Returns an open log, created if it is missing. It may be closed by the next call."""
        return self._logs.log(name)

    def _open(self, name: str) -> Log:
        path = self._directory if self._partitions == 0 else f"{self._directory}/{name}"
        return Log.open(path, env=self._env, **{**_NO_BOUNDS, **self._settings})

    def ends(self, rows: pa.Table) -> dict[str, int]:
        """Returns the log end offsets of the partitions of some rows, which are made if their topic
        is new, with all others that it gets. Raises `UsageError` for rows of a partition that a
        topic has not."""
        found, names = {}, sorted(pc.unique(rows.column("log")).to_pylist())
        for name in self._new_partitions(names) if self._partitions != 0 else ():
            self.log(name)
        for name in names:
            log = self.log(name)
            log.flush()
            found[name] = log.log_end_offset
        return found

    def _new_partitions(self, names: list[str]) -> list[str]:
        """Returns the names of all partitions of the topics that are new. The last one comes first:
        by it a topic is known to have all of them, also after a kill."""
        wanted: dict[str, set[int]] = {}
        for name in names:
            topic, _, digits = name.rpartition("-")
            wanted.setdefault(topic, set()).add(int(digits))
        made: list[str] = []
        for topic, numbers in wanted.items():
            known = known_partitions(self._directory, topic, self._env)
            there = known or range(self._partitions or len(numbers))
            for number in sorted(numbers - set(there)):
                if known or self._partitions:
                    raise unknown_part("partition", number, topic, there, self._directory)
                raise UsageError(
                    f"the topic {topic!r} is new, and its rows are of partition {number} but not of each before it",
                    hint=f"option partitions={number + 1} makes all of them",
                )
            made += [] if known else [f"{topic}-{number}" for number in reversed(there)]
        return made

    def missing(self, rows: pa.Table, ends: Mapping[str, int]) -> pa.Table:
        """Returns the rows that do not follow the former ends: of each log's rows, which are
        appended in order, those from the first one on that differs from the record there."""
        parts = []
        for name, begin in ends.items():
            part = _of_log(rows, name)
            parts.append(part.slice(self._count_written(name, part, begin)))
        return pa.concat_tables(parts) if parts else rows

    def _count_written(self, name: str, rows: pa.Table, begin: int) -> int:
        log, count = self.log(name), 0
        wanted = zip(*(rows.column(each).to_pylist() for each in ("key", "value", "timestamp_ms")), strict=True)
        uses_time = log.config.message_timestamp_type == "CreateTime"
        for record in log.records(max(begin, log.log_start_offset), control=True):
            expected = next(wanted, None)
            if expected is None or (record.key, record.value) != expected[:2]:
                break
            if uses_time and record.timestamp_ms != expected[2]:
                break
            count += 1
        return count

    def append(self, rows: pa.Table) -> None:
        """Appends the rows of each log, in order."""
        for name in sorted(pc.unique(rows.column("log")).to_pylist()):
            part = _of_log(rows, name).drop_columns(["log"])
            log = self.log(name)
            log.append_columns(part, compression=self._compression)
            log.flush()

    def close(self) -> None:
        """Closes all logs."""
        self._logs.close()


def _of_log(rows: pa.Table, name: str) -> pa.Table:
    return rows.filter(pc.equal(rows.column("log"), name))
