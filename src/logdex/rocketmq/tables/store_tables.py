"""The tables of a store, by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import cached_property
from typing import Any

import pyarrow as pa

from logdex.errors import StoreError
from logdex.frames.tables import Rows, TimedTable
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.files.config_files import ConsumerOffsets
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.message.message_json import to_text
from logdex.rocketmq.read.message_scan import LogScan
from logdex.rocketmq.snapshot.overview import StoreOverview, overview
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot
from logdex.rocketmq.tables.counted_messages import CountedMessages
from logdex.rocketmq.tables.index_entries import IndexEntries
from logdex.rocketmq.tables.message_keys import MessageKeys

QUEUES = pa.schema(
    [
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("min_offset", pa.int64()),
        ("max_offset", pa.int64()),
        ("messages", pa.int64()),
        ("files", pa.int64()),
        ("size_bytes", pa.int64()),
        ("begin_timestamp_ms", pa.int64()),
        ("end_timestamp_ms", pa.int64()),
    ]
)
SEGMENTS = pa.schema([("path", pa.string()), ("start_offset", pa.int64()), ("size_bytes", pa.int64())])
CONSUMER_OFFSETS = pa.schema(
    [
        ("consumer_group", pa.string()),
        ("topic", pa.string()),
        ("queue_id", pa.int32()),
        ("queue_offset", pa.int64()),
        ("lag", pa.int64()),
    ]
)


class StoreTables:
    """The tables of a store: `messages`; `message_keys`, which has a row per key of a message;
    `queues`; `segments`, which are the CommitLog's files; `index_entries`; `consumer_offsets`."""

    def __init__(
        self,
        snapshot: StoreSnapshot,
        *,
        time_slack_ms: int | None = None,
        decompress: bool = False,
        env: Env = DEFAULT_ENV,
    ) -> None:
        """`decompress` decompresses the bodies that are compressed. One that cannot be decompressed
        stays as it is stored, and is among `problems`."""
        self._snapshot, self._env = snapshot, env
        self.path = snapshot.root
        self._time_slack_ms, self._decompress = time_slack_ms, decompress
        self._make()

    def _make(self) -> None:
        snapshot = self._snapshot
        scan = snapshot.scan(time_slack_ms=self._time_slack_ms, decompress=self._decompress)
        self._messages, self._keys = CountedMessages(scan), MessageKeys(scan)
        self.tables = {
            "messages": TimedTable(self._messages),
            "message_keys": TimedTable(self._keys),
            "queues": TimedTable(Rows(QUEUES, lambda: [each.to_json() for each in self._overview.queues])),
            "segments": TimedTable(Rows(SEGMENTS, lambda: map(asdict, snapshot.commit_log.files))),
            "index_entries": TimedTable(IndexEntries(snapshot)),
            "consumer_offsets": TimedTable(Rows(CONSUMER_OFFSETS, self._consumer_offsets)),
        }

    def refresh(self) -> None:
        """Makes the tables anew, with what was written meanwhile."""
        self._snapshot.refresh()
        self.__dict__.pop("_overview", None)
        self._make()

    @property
    def scans(self) -> list[LogScan]:
        """The scans of messages that reads have made."""
        return [*self._messages.scans, *self._keys.scans]

    @property
    def problems(self) -> list[str]:
        """What could not be read for the small tables, and bodies that could not be
        decompressed."""
        found: StoreOverview | None = self.__dict__.get("_overview")
        bodies = dict.fromkeys(told for scan in self.scans for told in scan.undecompressed)
        return [*([] if found is None else found.problems), *bodies]

    @cached_property
    def _overview(self) -> StoreOverview:
        return overview(self._snapshot.root, self._snapshot.config, env=self._env)

    def _consumer_offsets(self) -> Iterator[dict[str, Any]]:
        if self._snapshot.commit_log.is_one_file:
            return
        queues = {(each.topic, each.queue_id): each for each in self._overview.queues}
        try:
            found = ConsumerOffsets.read(StorePaths(self._snapshot.root).config, env=self._env)
        except StoreError:
            return  # the overview has it among its problems
        for (topic, group), offsets in found.offsets.items():
            for queue_id, offset in offsets.items():
                queue = queues.get((topic, queue_id))
                lag = None if queue is None else queue.lag_from(offset)
                yield {
                    "consumer_group": to_text(group),
                    "topic": to_text(topic),
                    "queue_id": queue_id,
                    "queue_offset": offset,
                    "lag": lag,
                }
