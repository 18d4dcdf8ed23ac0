"""An overview of a store, from few reads: its queues, ranges of offsets and time, files and
IndexFiles, and whether it was shut down cleanly.

Only the ends of files are read; whether the store is whole is checked by `verify`. If the
ConsumeQueues do not cover the log (no consumequeue/, or a crash), the rest of the log is scanned.
Source: ``docs/formats/store-directory.md``; DefaultMessageStore.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from logdex.errors import CorruptError, StoreError, VanishedError
from logdex.frames.lag import lag_of
from logdex.io.env import DEFAULT_ENV, Env, ReadFile
from logdex.io.open_files import OpenFiles
from logdex.layout.rocketmq import FILE_NAME_DIGITS, INDEX_ENTRY, INDEX_HEADER
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.files.store_files import StoreFiles, StorePaths
from logdex.rocketmq.geometry.resolve import index_file_paths
from logdex.rocketmq.index_file.index_header import IndexHeader
from logdex.rocketmq.index_file.index_paths import no_index_files
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.recognise.lost_end import RESTORE_LAST_FILE, find_lost_end
from logdex.rocketmq.scan.log_extent import LogExtent, scan_extent
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.snapshot.lost_queues import Queue, QueueEnd, lost_queues
from logdex.rocketmq.snapshot.store_end import find_store_end

_LOOKS_MAX = 10
_SKEW_MS = 3_000
"""By so much an earlier message may be newer than the last one, because the clock went back."""


@dataclass(slots=True)
class QueueOverview:
    """One queue.

    Its queue offsets are from `min_offset` to `max_offset` (exclusive), as in the engine. Its
    messages begin at `first_available_offset`: a broker removes files of the log some time before
    those of the queues, and starts with a minimum of 0 if a queue's first file only has entries of
    removed messages. The times (ms) are those of its first and last message, None if they cannot be
    read. If the queue has no ConsumeQueue files, `files` is 0 and the other fields are from a scan
    of the log.
    """

    topic: bytes
    queue_id: int
    min_offset: int
    max_offset: int
    first_available_offset: int
    files: int = 0
    size_bytes: int = 0
    begin_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    consumer_offsets: dict[str, int] = field(default_factory=dict)
    """Consumer group → the next queue offset that it consumes, from
    `config/consumerOffset.json`."""

    @property
    def messages(self) -> int:
        """The number of queue offsets from the first available to the maximum."""
        return self.lag_from(0)

    def lag(self, group: str) -> int:
        """Returns the number of messages that a group has not consumed yet, of those that are still
        there."""
        return self.lag_from(self.consumer_offsets[group])

    def lag_from(self, offset: int) -> int:
        """Returns the number of messages from a queue offset on."""
        return lag_of(offset, self.first_available_offset, self.max_offset)

    def to_json(self) -> dict[str, Any]:
        """Returns the queue's object in ``logdex info --json``."""
        groups = {name: {"offset": offset, "lag": self.lag(name)} for name, offset in self.consumer_offsets.items()}
        numbers = asdict(self)
        del numbers["consumer_offsets"]
        return numbers | {"topic": to_text(self.topic), "messages": self.messages, "consumer_groups": groups}


@dataclass(slots=True)
class IndexOverview:
    """All IndexFiles together, from their headers. Times are in ms, offsets in bytes of the
    CommitLog."""

    files: int = 0
    size_bytes: int = 0
    entries: int = 0
    begin_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    begin_phy_offset: int | None = None
    end_phy_offset: int | None = None


@dataclass(slots=True)
class LogOverview:
    """The CommitLog.

    Its messages are from `min_offset` to `end_offset` (exclusive), which are physical offsets.
    `end` names how the log ends, and `end_reason` states it in words. The times (ms) are those of
    its first and last message, None if there is no message.
    """

    files: int
    size_bytes: int
    min_offset: int
    end_offset: int
    end: str
    end_reason: str
    is_clean_end: bool
    gaps: list[tuple[int, int]]
    begin_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    messages: int | None = None
    """The number of messages, if the log was scanned."""


@dataclass(slots=True)
class StoreOverview:
    """A store, or one CommitLog file (`is_one_file`). `problems` are what could not be read, one
    line per problem."""

    root: str
    config: StoreConfig
    small_files: StoreFiles
    log: LogOverview
    queues: list[QueueOverview] = field(default_factory=list)
    has_consume_queues: bool = True
    index: IndexOverview = field(default_factory=IndexOverview)
    checkpoint: StoreCheckpoint | None = None
    problems: list[str] = field(default_factory=list)
    is_one_file: bool = False

    def to_json(self) -> dict[str, Any]:
        """Returns the object of ``logdex info --json --store``. For one CommitLog file it does not
        state whether the store was shut down cleanly."""
        config = asdict(self.config)
        evidence, assumed, dialect = config.pop("evidence"), config.pop("assumed"), config.pop("dialect")
        return {
            "path": self.root,
            "engine": "rocketmq",
            "rocketmq_version": dialect["version"],
            "one_file": self.is_one_file,
            "clean": None if self.is_one_file else not self.small_files.is_unclean,
            "broker_process_id": self.small_files.process_id,
            "geometry": config,
            "evidence": list(evidence),
            "assumed": list(assumed),
            "commit_log": asdict(self.log),
            "consume_queues": {
                "queues": len(self.queues),
                "files": sum(queue.files for queue in self.queues),
                "size_bytes": sum(queue.size_bytes for queue in self.queues),
                "messages": sum(queue.messages for queue in self.queues),
            },
            "index": asdict(self.index),
            "checkpoint": self.checkpoint._asdict() if self.checkpoint is not None else None,
            "problems": self.problems,
        }


def overview(root: str, config: StoreConfig, *, env: Env = DEFAULT_ENV) -> StoreOverview:
    """Returns an overview of the store at `root`. Raises the errors of `CommitLog`; damage
    elsewhere is added to the overview's `problems`."""
    for _ in range(_LOOKS_MAX):
        with CommitLog.of_config(root, config, env=env) as commit_log:
            look = _Look(root, config, commit_log, env)
            found = look.run()
            if not found.problems or not (look.has_changed or commit_log.was_trimmed(commit_log.min_offset)):
                break  # else a broker has removed files meanwhile
    return found


def _require_room(header: IndexHeader, file: ReadFile) -> None:
    """Raises `CorruptError` if an IndexFile's header states more entries than its size allows."""
    most = (file.size_bytes - INDEX_HEADER.size_bytes) // INDEX_ENTRY.size_bytes
    if header.entry_count > most:
        raise CorruptError(
            "the header of this IndexFile cannot be",
            path=file.path,
            position=INDEX_HEADER.offset_of("index_count"),
            field="index_count",
            expected=f"at most {most} entries in {file.size_bytes} bytes",
            found=header.entry_count,
        )


class _Look:
    """Builds one overview. Afterwards `has_changed` states whether a file of a queue went away
    meanwhile whose topic is there, as one that is deleted and created again."""

    def __init__(self, root: str, config: StoreConfig, log: CommitLog, env: Env) -> None:
        self.root, self.config, self.log, self.env = root, config, log, env
        self.problems: list[str] = []
        self.has_changed = False
        self.ends: dict[Queue, QueueEnd | None] = {}
        """The queues that are there, and the ends of those that could be read."""

    def run(self) -> StoreOverview:
        queues = self._open_queues()
        if queues:
            extent, found = self._read_queues(queues)
        else:
            extent, found = self._scanned_queues()
        self._consumer_offsets(found)
        small_files = StoreFiles.read(self.root, problems=self.problems, env=self.env)
        if queues and not small_files.is_unclean:
            last = extent.end.last_message
            self.problems += lost_queues(self.root, self.log, self.ends, last, self.config, self.env)
        if not (small_files.is_unclean or self.log.is_one_file):
            self._note_lost_end(extent)
        return StoreOverview(
            self.root,
            self.config,
            small_files,
            self._log(extent),
            found,
            bool(queues),
            self._index(),
            self._checkpoint(),
            list(dict.fromkeys(self.problems)),  # several queues may report the same file
            self.log.is_one_file,
        )

    def _read_queues(self, queues: list[ConsumeQueue]) -> tuple[LogExtent, list[QueueOverview]]:
        try:
            extent = find_store_end(self.root, self.log, queues, self.config, self.env)
            looks = (self._queue(queue, extent.end.offset) for queue in queues)
            return extent, [look for look in looks if look is not None]
        finally:
            for queue in queues:
                queue.close()

    def _open_queues(self) -> list[ConsumeQueue]:
        queues = []
        size, open_files = self.config.consume_queue_file_size_bytes, OpenFiles(self.env)
        for topic, queue_id, directory in discover_queues(self.root, env=self.env):
            self.ends[topic, queue_id] = None
            try:
                queue = ConsumeQueue(
                    directory, topic, queue_id, file_size_bytes=size, env=self.env, open_files=open_files
                )
                queues.append(queue)
            except StoreError as error:
                self._note(error, directory)
        return queues

    def _note(self, error: StoreError, directory: str) -> None:
        """Notes a problem of a queue, unless a broker has deleted its topic meanwhile."""
        if self.env.exists(directory):
            self.has_changed |= isinstance(error, VanishedError)
            self.problems.append(error.message)

    def _queue(self, queue: ConsumeQueue, log_end_offset: int) -> QueueOverview | None:
        """Returns what there is in a queue, None if a broker has deleted its topic meanwhile."""
        look = QueueOverview(queue.topic, queue.queue_id, 0, 0, 0)
        try:
            queue.steadily(lambda: self._look_at(queue, look, log_end_offset))
        except StoreError as error:
            self._note(error, queue.directory)
        return look if self.env.exists(queue.directory) else None

    def _look_at(self, queue: ConsumeQueue, look: QueueOverview, log_end_offset: int) -> None:
        look.files, look.size_bytes = len(queue.files), sum(file.size_bytes for file in queue.files)
        for file in queue.cut_files:
            self.problems.append(
                f"{file.path}: {file.size_bytes} bytes, the queue's files have {queue.file_size_bytes}"
            )
        for expected, found in queue.gaps():
            if found > expected:
                missing = f"{queue.directory}/{expected:0{FILE_NAME_DIGITS}d}"
                self.problems.append(f"{missing}: this ConsumeQueue file is missing: logdex rebuild derives it")
        # If the log was truncated before a queue's entries, these no longer count, as after the
        # engine's recovery.
        look.max_offset = queue.max_offset_in(log_end_offset)
        look.min_offset = min(queue.min_offset(self.log.min_offset), look.max_offset)
        look.first_available_offset = min(queue.first_available_offset(self.log.min_offset), look.max_offset)
        self.ends[queue.topic, queue.queue_id] = QueueEnd.of(queue, look.max_offset)
        if look.messages:
            look.begin_timestamp_ms = self._store_timestamp_ms(queue, look.first_available_offset)
            look.end_timestamp_ms = self._store_timestamp_ms(queue, look.max_offset - 1)

    def _store_timestamp_ms(self, queue: ConsumeQueue, queue_offset: int) -> int | None:
        if queue_offset >= queue.max_offset:
            return None
        entry = queue.entry(queue_offset)
        time = self.log.pickup_store_timestamp_ms(entry.physical_offset, entry.size_bytes)
        return time if time > 0 else None

    def _scanned_queues(self) -> tuple[LogExtent, list[QueueOverview]]:
        extent = scan_extent(self.log, None, self.config, env=self.env)
        found = [
            QueueOverview(
                topic,
                queue_id,
                span.min_offset,
                span.max_offset,
                span.min_offset,
                begin_timestamp_ms=span.begin_timestamp_ms,
                end_timestamp_ms=span.end_timestamp_ms,
            )
            for (topic, queue_id), span in sorted(extent.queues.items())
        ]
        return extent, found

    def _log(self, extent: LogExtent) -> LogOverview:
        log, begin = self.log, None
        self.problems += [error.message for error in log.unusable.values()]
        for file in log.wrong_sizes:
            if file.start_offset in log.unusable:
                continue
            if file.size_bytes or file is not log.files[-1]:
                text = f"{file.size_bytes} bytes, the CommitLog's files have {log.file_size_bytes}"
                self.problems.append(f"{file.path}: {text}")
        if extent.end.offset > log.min_offset and log.min_offset not in log.unusable:
            try:
                begin = log.read_message(log.min_offset, check_crc=False).store_timestamp_ms
            except StoreError as error:
                self.problems.append(error.message)
        return LogOverview(
            files=len(log.files),
            size_bytes=log.size_bytes,
            min_offset=log.min_offset,
            end_offset=extent.end.offset,
            end=extent.end.kind.value,
            end_reason=extent.end.reason,
            is_clean_end=extent.end.is_clean,
            gaps=log.gaps(),
            begin_timestamp_ms=begin,
            end_timestamp_ms=extent.last_store_timestamp_ms,
            messages=extent.messages,
        )

    def _note_lost_end(self, extent: LogExtent) -> None:
        """Notes what tells of messages behind the log's end. If that is damaged, it is named, and
        only what lies behind all files counts."""
        last_ms, end = extent.last_store_timestamp_ms or 0, extent.end.offset
        named = 0 if extent.end.is_clean else self.log.end_offset
        for tells in find_lost_end(self.root, end, last_ms, self.config, self.env, skew_ms=_SKEW_MS):
            if tells.is_sure and named <= (end if tells.offset is None else tells.offset):
                self.problems.append(f"{tells.text}: {RESTORE_LAST_FILE}")

    def _index(self) -> IndexOverview:
        look = IndexOverview()
        self.problems += [error.message for error in no_index_files(StorePaths(self.root).index, self.env)]
        for path in index_file_paths(self.root, self.env):
            try:
                with self.env.open_read(path) as file:
                    header = IndexHeader.unpack(file.read_at(0, INDEX_HEADER.size_bytes), path=path)
                _require_room(header, file)
            except VanishedError:
                continue
            except StoreError as error:
                self.problems.append(error.message)
                continue
            look.files += 1
            look.size_bytes += file.size_bytes
            look.entries += header.entry_count
            if header.entry_count:
                if look.begin_timestamp_ms is None:
                    look.begin_timestamp_ms, look.begin_phy_offset = header.begin_timestamp_ms, header.begin_phy_offset
                look.end_timestamp_ms, look.end_phy_offset = header.end_timestamp_ms, header.end_phy_offset
        return look

    def _consumer_offsets(self, queues: list[QueueOverview]) -> None:
        try:
            read = ConsumerOffsets.read(StorePaths(self.root).config, env=self.env)
        except StoreError as error:
            self.problems.append(error.message)
            return
        if read.file.remark is not None:
            self.problems.append(read.file.remark)
        by_name = {(queue.topic, queue.queue_id): queue for queue in queues}
        for (topic, group), offsets in read.offsets.items():
            for queue_id, offset in offsets.items():
                queue = by_name.get((topic, queue_id))
                if queue is not None:
                    queue.consumer_offsets[to_text(group)] = offset

    def _checkpoint(self) -> StoreCheckpoint | None:
        path = StorePaths(self.root).checkpoint
        if not self.env.exists(path):
            return None
        try:
            return StoreCheckpoint.read(path, env=self.env)
        except StoreError as error:
            self.problems.append(error.message)
            return None
