"""Kafka's log: segments, sparse indexes, recovery. Terms are Kafka's; `docs/formats` has the bytes.

The names below can be imported from here; each loads its module when it is first asked for, so that what needs no
kernel does not load Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers see; the same names as below
    from logdex.kafka.file_records import FileRecords as FileRecords
    from logdex.kafka.index_fold import derive_offset_index as derive_offset_index
    from logdex.kafka.index_fold import derive_time_index as derive_time_index
    from logdex.kafka.key_index.reader import KeyIndex as KeyIndex
    from logdex.kafka.leader_epochs import derive_leader_epochs as derive_leader_epochs
    from logdex.kafka.log import Log as Log
    from logdex.kafka.log_config import LogConfig as LogConfig
    from logdex.kafka.log_dir import KafkaLogDir as KafkaLogDir
    from logdex.kafka.log_segment import LogSegment as LogSegment
    from logdex.kafka.log_tail import LogTail as LogTail
    from logdex.kafka.offset_index import OffsetIndex as OffsetIndex
    from logdex.kafka.open_log.append import AppendInfo as AppendInfo
    from logdex.kafka.open_log.report import LoadReport as LoadReport
    from logdex.kafka.open_log.transactions import Transaction as Transaction
    from logdex.kafka.producer_snapshot import derive_producer_snapshot as derive_producer_snapshot
    from logdex.kafka.record import Compression as Compression
    from logdex.kafka.record import Record as Record
    from logdex.kafka.record import TimestampType as TimestampType
    from logdex.kafka.record_batch import RecordBatch as RecordBatch
    from logdex.kafka.time_index import TimeIndex as TimeIndex
    from logdex.kafka.transaction_index import TransactionIndex as TransactionIndex
    from logdex.kafka.transaction_index import derive_transaction_index as derive_transaction_index

_HOMES = {
    "AppendInfo": "open_log.append",
    "Compression": "record",
    "FileRecords": "file_records",
    "KafkaLogDir": "log_dir",
    "KeyIndex": "key_index.reader",
    "LoadReport": "open_log.report",
    "Log": "log",
    "LogConfig": "log_config",
    "LogSegment": "log_segment",
    "LogTail": "log_tail",
    "OffsetIndex": "offset_index",
    "Record": "record",
    "RecordBatch": "record_batch",
    "TimeIndex": "time_index",
    "TimestampType": "record",
    "Transaction": "open_log.transactions",
    "TransactionIndex": "transaction_index",
    "derive_leader_epochs": "leader_epochs",
    "derive_offset_index": "index_fold",
    "derive_producer_snapshot": "producer_snapshot",
    "derive_time_index": "index_fold",
    "derive_transaction_index": "transaction_index",
}

__all__ = tuple(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
