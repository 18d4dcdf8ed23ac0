"""Kafka's log: segments, sparse indexes, recovery. Terms are Kafka's; `docs/formats` has the bytes.

The names below can be imported from here; each loads its module when it is first asked for, so that what needs no
kernel does not load Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "AppendInfo": "log_append",
    "Compression": "record",
    "FileRecords": "file_records",
    "KafkaLogDir": "log_dir",
    "KeyIndex": "key_index",
    "LoadReport": "log_report",
    "Log": "log",
    "LogConfig": "log_config",
    "LogSegment": "log_segment",
    "LogTail": "log_tail",
    "OffsetIndex": "offset_index",
    "Record": "record",
    "RecordBatch": "record_batch",
    "TimeIndex": "time_index",
    "TimestampType": "record",
    "Transaction": "log_transactions",
    "TransactionIndex": "transaction_index",
    "derive_leader_epochs": "leader_epochs",
    "derive_offset_index": "index_fold",
    "derive_producer_snapshot": "producer_snapshot",
    "derive_time_index": "index_fold",
    "derive_transaction_index": "transaction_index",
    "encode_columns": "encode_columns",
}

__all__ = tuple(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
