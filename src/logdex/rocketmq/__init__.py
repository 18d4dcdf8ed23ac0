"""RocketMQ's storage engine: CommitLog, ConsumeQueue, IndexFile. `docs/formats` describes the
files.

Names are RocketMQ's. Each name below loads its module on first use, so that code without kernels
does not load Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CommitLog": "commit_log.commit_log",
    "ConsumeQueue": "consume_queue.consume_queue",
    "Consumer": "consuming.consumer",
    "ConsumerOffsetManager": "consuming.consumer_offsets",
    "Dialect": "settings.dialect",
    "FollowReport": "ha.follower",
    "Follower": "ha.follower",
    "HAClient": "ha.client",
    "HAService": "ha.service",
    "HATiming": "ha.timing",
    "ExpiredFiles": "message_store.services.retention",
    "IndexFile": "index_file.index_file",
    "IndexHeader": "index_file.index_header",
    "IndexService": "index_file.index_service",
    "LocalFileOffsetStore": "consuming.local_offsets",
    "Message": "message_store.put.message",
    "MessageStore": "message_store.message_store",
    "PutMessageResult": "message_store.put.message",
    "PutMessageStatus": "message_store.put.message",
    "Scanner": "scan.scanner",
    "StoreCheckpoint": "files.checkpoint",
    "StoreConfig": "settings.store_config",
    "StoreSnapshot": "snapshot.store_snapshot",
    "StoreStats": "message_store.services.stats",
    "StoredMessage": "message.stored_message",
    "derive_index_files": "index_file.writer",
}

__all__ = tuple(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
