"""Rows of a table that are for light queues. Their places there, and so their sizes, are known only
when each is put, so the rows of such a table are put one after the other under one lock."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from logdex.rocketmq.message import properties as props
from logdex.rocketmq.message_store.core import StoreCore
from logdex.rocketmq.message_store.put.append import append_encoded
from logdex.rocketmq.message_store.put.encode import Encoded, Encoder
from logdex.rocketmq.message_store.put.message import Message, PutMessageResult, Refusal


def has_light_queues(properties: Any) -> bool:
    """Whether a row of a column of maps has the property that names light queues."""
    if not pa.types.is_map(properties.type):
        return False
    names = properties.keys.cast(pa.large_binary())
    return bool(pc.any(pc.equal(names, pa.scalar(props.MULTI_DISPATCH, pa.large_binary()))).as_py())


def encoded_rows(
    encoder: Encoder, table: pa.Table | pa.RecordBatch, topics: list[bytes], queue_ids: list[int], now_ms: int
) -> list[Encoded] | Refusal:
    """The rows as messages, with the topic and queue of each; or why the first that cannot be put
    is refused."""
    names, found = set(table.schema.names), list[Encoded]()
    columns = {name: table.column(name).to_pylist() for name in names - {"topic", "queue_id", "sharding_key"}}
    for row, (topic, queue_id) in enumerate(zip(topics, queue_ids, strict=True)):
        values = {name: column[row] for name, column in columns.items()}
        own = dict(values.get("properties") or ())
        if values.get("unique_key") is not None:
            own[props.UNIQ_KEY.decode()] = values["unique_key"]
        body = values.get("body") or b""
        message = Message(
            topic,
            body.encode() if isinstance(body, str) else body,
            tags=values.get("tags"),
            keys=values.get("keys") or (),
            properties=own,
            born_timestamp_ms=values.get("born_timestamp_ms"),
        )
        encoded = encoder.encode(message, topic, queue_id, now_ms)
        if isinstance(encoded, Refusal):
            return encoded
        found.append(encoded)
    return found


class RowPuts:
    """Puts messages one after the other. The lock is held."""

    def __init__(self, core: StoreCore, rows: list[Encoded]) -> None:
        self._core, self._rows = core, rows

    def run(self) -> PutMessageResult:
        """Puts all messages; fewer if one is refused, which the status says."""
        core, results = self._core, list[PutMessageResult]()
        for encoded in self._rows:
            result = append_encoded(core, encoded, core.append)
            if not result.is_stored:
                break
            results.append(result)
        core.stats.puts -= len(results)  # the table is one put
        if not results:
            return result
        size = sum(each.size_bytes for each in results)
        return results[0]._replace(status=result.status, size_bytes=size, msg_num=len(results))
