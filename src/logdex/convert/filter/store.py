"""Some of the messages of a RocketMQ store as a new store.

Each message is put again in the order of the log, with its topic, queue, body, properties, flags,
times and hosts. Where a message stands in a log is part of the message, so its physical offset, its
MessageID and its queue offset are new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from logdex.convert.new_directory import new_directory
from logdex.convert.report import ConvertReport
from logdex.convert.translate.undelivered import placeholder_notes
from logdex.errors import StoreError, UsageError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import StrPath
from logdex.jobs.look_again import removed_meanwhile
from logdex.jobs.reports import Gone
from logdex.jobs.work_time import work_seconds
from logdex.primitives.shown import counted
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd
from logdex.rocketmq.message.own_topics import UNDELIVERED_TOPICS
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import Message, PutMessageStatus
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.read.parts.behind_damage import error_of
from logdex.rocketmq.rebuild.source import require_whole_log
from logdex.rocketmq.recover.placeholder import is_placeholder
from logdex.rocketmq.settings.store_config import delay_text
from logdex.rocketmq.snapshot.frozen_store import FrozenStore, freeze_between
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

_MESSAGE_SIZE_MAX = 1 << 27
_DISPATCH_MESSAGES = 10_000

Passes = Callable[[StoredMessage, int], bool]
"""Takes a message and its physical offset."""


def filter_store(
    snapshot: StoreSnapshot,
    scan: LogScan | None,
    output: StrPath,
    passes: Passes | None = None,
    *,
    source: str,
    flags: str = "",
    limit: int | None = None,
    system_topics: bool = False,
    sync: bool = True,
    env: Env = DEFAULT_ENV,
) -> ConvertReport:
    """Writes the messages of a scan of `snapshot` for which `passes` holds (all if it is None), at
    most `limit`, as a new store, which must be empty before. Without a scan there is none.

    Without `system_topics` the messages that an engine has yet to deliver (`UNDELIVERED_TOPICS`)
    are left out, which a broker would deliver a second time. So are placeholders. `source` is the
    real path that is read, and `flags` are those of the command, for whoever has to type it again.
    Messages behind the end of a damaged log are losses of the report. Raises `UsageError` if it may
    not write to `output`, and for a log that a killed recovery had replaced.
    """
    started = work_seconds()
    require_whole_log(source, env)
    report = ConvertReport("local", tasks=1)
    frozen = None if scan is None else _frozen(snapshot, scan, source)
    with new_directory("filter", source, output, flags=flags, sync=sync, env=env) as made:
        report.notes += made.notes
        made.contents = f"{made.home}/store"
        placeholders = 0
        with _NewStore(made.contents, snapshot, env) as new:
            for at, message in () if scan is None else scan.items():
                if is_placeholder(message):
                    placeholders += 1
                elif passes is not None and not passes(message, at):
                    continue
                elif message.topic in UNDELIVERED_TOPICS and not system_topics:
                    new.left_out[message.topic] += 1
                else:
                    new.put(message)
                    if new.count == limit:
                        break
    report.messages, report.bytes, report.files = new.count, snapshot.commit_log.size_bytes, len(new.queues)
    report.notes += [
        f"{counted(number, 'message', 'messages')} of {topic.decode()} left out: --topic {topic.decode()} has them"
        for topic, number in sorted(new.left_out.items())
    ]
    report.notes += placeholder_notes(placeholders)
    report.losses += [f"{counted(number, 'message', 'messages')}: {why}" for why, number in sorted(new.refused.items())]
    if scan is not None:
        report.losses += map(Gone, removed_meanwhile(scan.trimmed))
        if scan.end is not None and scan.end.kind is EndKind.TORN:
            report.notes.append(scan.end.description)
        elif scan.end is not None and not scan.end.is_clean:
            report.losses.append(_loss_behind(scan.end, frozen, snapshot, env))
    report.seconds = work_seconds() - started
    return report


def _frozen(snapshot: StoreSnapshot, scan: LogScan, source: str) -> FrozenStore | None:
    """Returns the store up to where a scan is to end, None if that is not known."""
    with suppress(StoreError):  # the scan meets it itself
        upto = scan.upto()
        return None if upto is None else freeze_between(snapshot, source, "", 0, upto.offset)
    return None


def _loss_behind(end: LogEnd, frozen: FrozenStore | None, snapshot: StoreSnapshot, env: Env) -> str:
    if end.kind is EndKind.CUT:
        return Gone(end.reason)
    cut = None if frozen is None else frozen.cut_since(error_of(end), end.offset, snapshot.config, env)
    return f"what lies behind offset {end.offset} of the log: {end.reason}" if cut is None else Gone(cut.message)


class _NewStore:
    """The store that is written. A context manager that closes it."""

    def __init__(self, directory: str, snapshot: StoreSnapshot, env: Env) -> None:
        self.count = 0
        self.queues: set[tuple[bytes, int]] = set()
        self.left_out: Counter[bytes] = Counter()
        self.refused: Counter[str] = Counter()
        self._now_ms = 0
        self._queue_nums: dict[bytes, int] = {}
        config = snapshot.config
        self._store = MessageStore.open(
            directory,
            env=env,
            clock_ms=lambda: self._now_ms,
            background=False,
            unique_keys=False,
            max_message_size=_MESSAGE_SIZE_MAX,
            mapped_file_size_commit_log=config.mapped_file_size_commit_log,
            mapped_file_size_consume_queue=config.mapped_file_size_consume_queue,
            max_hash_slot_num=config.max_hash_slot_num,
            max_index_num=config.max_index_num,
            message_delay_level=" ".join(map(delay_text, config.delay_levels_ms)),
            rocketmq_version=config.dialect.version,
        )

    def put(self, message: StoredMessage) -> None:
        """Puts one message again, or counts why the engine refuses it."""
        self._now_ms = message.store_timestamp_ms
        try:
            if message.queue_id >= self._queue_nums.get(message.topic, 0):
                self._queue_nums[message.topic] = message.queue_id + 1
                self._store.create_topic(message.topic, message.queue_id + 1)
            status = self._store.put_message(message_again(message)).status
        except UsageError as error:
            self.refused[error.message] += 1
            return
        if status is not PutMessageStatus.PUT_OK:
            self.refused[status.name] += 1
            return
        self.count += 1
        self.queues.add((message.topic, message.queue_id))
        if self.count % _DISPATCH_MESSAGES == 0:
            self._store.dispatch()

    def __enter__(self) -> _NewStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()


def message_again(message: StoredMessage) -> Message:
    """Returns a stored message as one to put."""
    return Message(
        message.topic,
        message.body,
        properties=message.properties,
        queue_id=message.queue_id,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )
