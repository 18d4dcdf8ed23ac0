"""The messages of a store as the local reader gives them, in the form of the rows of
`rocketmq_store`."""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from logdex.convert.columns.rocketmq import NAMES
from logdex.errors import IncompleteReadWarning
from logdex.layout.rocketmq import SYS_FLAG_COMPRESSED
from logdex.rocketmq.commit_log.log_end import EndKind
from logdex.rocketmq.message.message_id import MessageId
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot

Row = dict[str, Any]


def local_rows(path: Path, behind_damage: Iterable[int] = (), *, raw_bodies: bool = True) -> tuple[list[Row], bool]:
    """All messages up to the first damage, then those from each of some physical offsets up to the
    next damage, bodies as they are stored or as they were sent; and whether the last part ended
    without damage."""
    rows: list[Row] = []
    with StoreSnapshot(str(path)) as snapshot, warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteReadWarning)
        for start in (None, *behind_damage):
            scan = snapshot.scan(start_offset=start)
            rows += [_as_source(message, path.name, raw_bodies) for message in scan]
            assert scan.end is not None
            end = scan.end
    return rows, end.kind is not EndKind.CORRUPT


def comparable(rows: Iterable[Row]) -> list[Row]:
    """Rows of the source in the form of `local_rows`: JSON and maps as dictionaries."""
    return [
        {**row, "properties": json.loads(row["properties"]), "propertyMap": dict(row["propertyMap"])} for row in rows
    ]


def plain_body(message: StoredMessage) -> bytes:
    """The body as it was sent. The golden stores have no codec but zlib."""
    return zlib.decompress(message.body) if message.sys_flag & SYS_FLAG_COMPRESSED else message.body


def _as_source(message: StoredMessage, broker_name: str, raw_bodies: bool) -> Row:
    properties = {_text(name): _text(value) for name, value in message.properties.items()}
    row = {
        "topic": _text(message.topic),
        "flag": message.flag,
        "body": message.body if raw_bodies else plain_body(message),
        "properties": properties,
        "brokerName": broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "bornTimestamp": message.born_timestamp_ms * 1000,
        "storeTimestamp": message.store_timestamp_ms * 1000,
        "tags": None if message.tags is None else _text(message.tags),
        "keys": [_text(key) for key in message.keys],
        "uniqueKey": None if message.unique_key is None else _text(message.unique_key),
        "propertyMap": properties,
        "physicalOffset": message.physical_offset,
        "sizeBytes": message.size_bytes,
        "msgId": str(MessageId(message.store_host, message.physical_offset)),
        "sysFlag": message.sys_flag,
        "bornHost": str(message.born_host),
        "storeHost": str(message.store_host),
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCrc": message.body_crc,
    }
    assert tuple(row) == NAMES
    return row


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "backslashreplace")
