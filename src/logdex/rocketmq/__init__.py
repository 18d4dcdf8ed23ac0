"""RocketMQ's storage engine: CommitLog, ConsumeQueue, IndexFile. `docs/formats` describes the
files.

Names are RocketMQ's. Each name below loads its module on first use, so that code without kernels
does not load Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; the same names as below
    from logdex.rocketmq.commit_log.commit_log import CommitLog as CommitLog
    from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue as ConsumeQueue
    from logdex.rocketmq.consuming.consumer import Consumer as Consumer
    from logdex.rocketmq.consuming.consumer_offsets import ConsumerOffsetManager as ConsumerOffsetManager
    from logdex.rocketmq.consuming.local_offsets import LocalFileOffsetStore as LocalFileOffsetStore
    from logdex.rocketmq.files.checkpoint import StoreCheckpoint as StoreCheckpoint
    from logdex.rocketmq.ha.client import HAClient as HAClient
    from logdex.rocketmq.ha.follower import Follower as Follower
    from logdex.rocketmq.ha.follower import FollowReport as FollowReport
    from logdex.rocketmq.ha.service import HAService as HAService
    from logdex.rocketmq.ha.timing import HATiming as HATiming
    from logdex.rocketmq.index_file.index_file import IndexFile as IndexFile
    from logdex.rocketmq.index_file.index_header import IndexHeader as IndexHeader
    from logdex.rocketmq.index_file.index_service import IndexService as IndexService
    from logdex.rocketmq.index_file.writer import derive_index_files as derive_index_files
    from logdex.rocketmq.message.message_id import MessageId as MessageId
    from logdex.rocketmq.message.stored_message import StoredMessage as StoredMessage
    from logdex.rocketmq.message_store.load_report import LoadReport as LoadReport
    from logdex.rocketmq.message_store.message_store import MessageStore as MessageStore
    from logdex.rocketmq.message_store.options import MessageStoreSettings as MessageStoreSettings
    from logdex.rocketmq.message_store.options import StoreOptions as StoreOptions
    from logdex.rocketmq.message_store.put.message import Message as Message
    from logdex.rocketmq.message_store.put.message import PutMessageResult as PutMessageResult
    from logdex.rocketmq.message_store.put.message import PutMessageStatus as PutMessageStatus
    from logdex.rocketmq.message_store.services.retention import ExpiredFiles as ExpiredFiles
    from logdex.rocketmq.message_store.services.stats import StoreStats as StoreStats
    from logdex.rocketmq.read.results import GetColumnsResult as GetColumnsResult
    from logdex.rocketmq.read.results import GetMessageResult as GetMessageResult
    from logdex.rocketmq.read.results import GetMessageStatus as GetMessageStatus
    from logdex.rocketmq.read.results import QueryMessageResult as QueryMessageResult
    from logdex.rocketmq.read.results import QueueInfo as QueueInfo
    from logdex.rocketmq.scan.scanner import Scanner as Scanner
    from logdex.rocketmq.settings.dialect import Dialect as Dialect
    from logdex.rocketmq.settings.store_config import StoreConfig as StoreConfig
    from logdex.rocketmq.snapshot.store_snapshot import StoreSnapshot as StoreSnapshot

_HOMES = {
    "CommitLog": "commit_log.commit_log",
    "ConsumeQueue": "consume_queue.consume_queue",
    "Consumer": "consuming.consumer",
    "ConsumerOffsetManager": "consuming.consumer_offsets",
    "Dialect": "settings.dialect",
    "ExpiredFiles": "message_store.services.retention",
    "FollowReport": "ha.follower",
    "Follower": "ha.follower",
    "GetColumnsResult": "read.results",
    "GetMessageResult": "read.results",
    "GetMessageStatus": "read.results",
    "HAClient": "ha.client",
    "HAService": "ha.service",
    "HATiming": "ha.timing",
    "IndexFile": "index_file.index_file",
    "IndexHeader": "index_file.index_header",
    "IndexService": "index_file.index_service",
    "LoadReport": "message_store.load_report",
    "LocalFileOffsetStore": "consuming.local_offsets",
    "Message": "message_store.put.message",
    "MessageId": "message.message_id",
    "MessageStore": "message_store.message_store",
    "MessageStoreSettings": "message_store.options",
    "PutMessageResult": "message_store.put.message",
    "PutMessageStatus": "message_store.put.message",
    "QueryMessageResult": "read.results",
    "QueueInfo": "read.results",
    "Scanner": "scan.scanner",
    "StoreCheckpoint": "files.checkpoint",
    "StoreConfig": "settings.store_config",
    "StoreOptions": "message_store.options",
    "StoreSnapshot": "snapshot.store_snapshot",
    "StoreStats": "message_store.services.stats",
    "StoredMessage": "message.stored_message",
    "derive_index_files": "index_file.writer",
}

__all__ = tuple(_HOMES)


if not TYPE_CHECKING:  # with it, type checkers would take any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
