"""Rows of a DataFrame as messages of a RocketMQ store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logdex.convert.columns.properties import property_maps
from logdex.convert.columns.rows import require_columns, require_topic, times_ms, topics_of, typed
from logdex.errors import LogFailedError, UsageError
from logdex.formats import FORMATS
from logdex.io.env import DEFAULT_ENV, Env
from logdex.primitives.host import Host
from logdex.rocketmq.message.topic_names import require_topic_name
from logdex.rocketmq.message_store.message_store import MessageStore
from logdex.rocketmq.message_store.put.message import PutMessageStatus
from logdex.rocketmq.message_store.put.table_columns import keys_of
from logdex.rocketmq.message_store.put.unique_keys import UniqueKeys
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.spark.sinks.commit import Destination
from logdex.spark.sinks.sink import SINK_OPTIONS, directory_of
from logdex.spark.sources.options import Options, format_settings

FORMAT = FORMATS["rocketmq"]
OPTIONS = (*SINK_OPTIONS, "defaultTopicQueueNums", *format_settings(FORMAT))
COMMIT_LOG = "commitlog"

_OF_ROWS = (
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
    PutMessageStatus.WHEEL_TIMER_NOT_ENABLE,
)
"""The statuses with which a store refuses rows that it takes at no other time either."""

_KINDS = {
    "body": pa.large_binary(),
    "queueId": pa.int32(),
    "shardingKey": pa.string(),
    "tags": pa.string(),
    "uniqueKey": pa.string(),
}
TAKEN = ("topic", *_KINDS, "keys", "properties", "propertyMap", "bornTimestamp")
IGNORED = (
    *("flag", "brokerName", "queueOffset", "storeTimestamp", "physicalOffset", "sizeBytes", "msgId", "sysFlag"),
    *("bornHost", "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyCrc"),
)
"""The columns of the source that a store gives to each message itself."""


class StoreSink:
    """A store. See `Sink`."""

    def __init__(self, given: Mapping[str, str], columns: tuple[str, ...]) -> None:
        options = Options("rocketmq_store", given, OPTIONS)
        require_columns(columns, TAKEN, IGNORED)
        if "body" not in columns:
            raise UsageError("a column body is missing", hint="name the column with the messages' bytes so")
        self.directory = directory_of(options, FORMAT.name)
        self._topic = options.text("topic")
        require_topic(columns, self._topic)
        self._settings: dict[str, Any] = options.settings(FORMAT)
        queues = options.integer("defaultTopicQueueNums", 1)
        if queues is not None:
            self._settings["default_topic_queue_nums"] = queues

    def prepared(self, batches: Iterator[pa.RecordBatch], task: int, now_ms: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows with the columns of `MessageStore.put_columns`. Each has its unique key
        already, by which a commit that is repeated finds it again."""
        keys = UniqueKeys(Host(bytes((127, 0, 0, 1)), 0))
        for batch in batches:
            found = {name: typed(batch, name, _KINDS) for name in _KINDS}
            made = keys.column(len(batch), now_ms).cast(pa.string())
            if found["uniqueKey"] is not None:
                made = pc.coalesce(found["uniqueKey"], made)
            topics = topics_of(batch, self._topic)
            for topic in pc.unique(topics).to_pylist():
                require_topic_name(topic)
            columns: dict[str, pa.Array | None] = {
                "topic": topics,
                "body": found["body"],
                "queue_id": found["queueId"],
                "sharding_key": found["shardingKey"],
                "tags": found["tags"],
                "keys": keys_of(batch) if "keys" in batch.schema.names else None,
                "properties": property_maps(batch),
                "born_timestamp_ms": times_ms(batch, "bornTimestamp", now_ms),
                "unique_key": made,
            }
            present = {name: column for name, column in columns.items() if column is not None}
            yield pa.RecordBatch.from_arrays(list(present.values()), names=list(present))

    @contextmanager
    def open(self, env: Env = DEFAULT_ENV) -> Iterator[Destination]:
        """Opens the store, which is closed cleanly afterwards."""
        with MessageStore.open(self.directory, background=False, env=env, **self._settings) as store:
            yield StoreDestination(store, env)


class StoreDestination:
    """An open store. See `Destination`."""

    def __init__(self, store: MessageStore, env: Env) -> None:
        self._store = store
        self._env = env

    def ends(self, rows: pa.Table) -> dict[str, int]:
        """Returns the physical offset at which the log ends."""
        self._store.flush_log()
        return {COMMIT_LOG: self._store.core.log.end_offset}

    def missing(self, rows: pa.Table, ends: Mapping[str, int]) -> pa.Table:
        """Returns the rows whose unique keys do not follow in the log. They are put in order, so
        those are the last ones."""
        begin, wanted = ends[COMMIT_LOG], rows.column("unique_key").to_pylist()
        found = 0
        if begin < self._store.core.log.end_offset:
            with StoreSnapshot(self._store.path, config=self._store.core.config, env=self._env) as snapshot:
                for batch in snapshot.scan(start_offset=begin).arrow_reader(["unique_key"]):
                    for key in batch.column("unique_key").to_pylist():
                        found += found < len(wanted) and key == wanted[found]
        return rows.slice(found)

    def append(self, rows: pa.Table) -> None:
        """Puts all rows or none."""
        if not len(rows):
            return
        result = self._store.put_columns(rows)
        status = result.status
        if status in _OF_ROWS:
            raise UsageError(
                f"{self._store.path}: a row is no message that the store takes ({status.name}): {result.remark}"
            )
        if status is not PutMessageStatus.PUT_OK:
            told = f"the store takes no messages now ({status.name}): {result.remark}"
            raise LogFailedError(told, path=self._store.path)
        self._store.flush_log()
