"""Kafka's storage engine: partitions, segments, indexes, recovery. `docs/formats` describes the
files.

Names are Kafka's. Each name below loads its module on first use, so that code without kernels does
not load Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; the same names as below
    from logdex.kafka.batch.record import Compression as Compression
    from logdex.kafka.batch.record import Record as Record
    from logdex.kafka.batch.record import TimestampType as TimestampType
    from logdex.kafka.batch.record_batch import RecordBatch as RecordBatch
    from logdex.kafka.directory.log_dir import KafkaLogDir as KafkaLogDir
    from logdex.kafka.key_index.reader import KeyIndex as KeyIndex
    from logdex.kafka.log.append import AppendInfo as AppendInfo
    from logdex.kafka.log.load_report import LoadReport as LoadReport
    from logdex.kafka.log.log import Log as Log
    from logdex.kafka.log.transactions import Transaction as Transaction
    from logdex.kafka.read.follow.follower import LogFollower as LogFollower
    from logdex.kafka.read.read_filter import ReadFilter as ReadFilter
    from logdex.kafka.readers.log_reader import LogReader as LogReader
    from logdex.kafka.segment.derive_indexes import derive_offset_index as derive_offset_index
    from logdex.kafka.segment.derive_indexes import derive_time_index as derive_time_index
    from logdex.kafka.segment.file_records import FileRecords as FileRecords
    from logdex.kafka.segment.log_segment import LogSegment as LogSegment
    from logdex.kafka.segment.offset_index import OffsetIndex as OffsetIndex
    from logdex.kafka.segment.time_index import TimeIndex as TimeIndex
    from logdex.kafka.segment.transaction_index import TransactionIndex as TransactionIndex
    from logdex.kafka.segment.transaction_index import derive_transaction_index as derive_transaction_index
    from logdex.kafka.settings.log_config import LogConfig as LogConfig
    from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot as LogDirSnapshot
    from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot as PartitionSnapshot
    from logdex.kafka.state.leader_epochs import derive_leader_epochs as derive_leader_epochs
    from logdex.kafka.state.producer_snapshot import derive_producer_snapshot as derive_producer_snapshot

_HOMES = {
    "AppendInfo": "log.append",
    "Compression": "batch.record",
    "FileRecords": "segment.file_records",
    "KafkaLogDir": "directory.log_dir",
    "KeyIndex": "key_index.reader",
    "LoadReport": "log.load_report",
    "Log": "log.log",
    "LogConfig": "settings.log_config",
    "LogDirSnapshot": "snapshot.log_dir_snapshot",
    "LogFollower": "read.follow.follower",
    "LogReader": "readers.log_reader",
    "LogSegment": "segment.log_segment",
    "OffsetIndex": "segment.offset_index",
    "PartitionSnapshot": "snapshot.partition_snapshot",
    "ReadFilter": "read.read_filter",
    "Record": "batch.record",
    "RecordBatch": "batch.record_batch",
    "TimeIndex": "segment.time_index",
    "TimestampType": "batch.record",
    "Transaction": "log.transactions",
    "TransactionIndex": "segment.transaction_index",
    "derive_leader_epochs": "state.leader_epochs",
    "derive_offset_index": "segment.derive_indexes",
    "derive_producer_snapshot": "state.producer_snapshot",
    "derive_time_index": "segment.derive_indexes",
    "derive_transaction_index": "segment.transaction_index",
}

__all__ = tuple(_HOMES)


if not TYPE_CHECKING:  # with it, type checkers would take any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
