"""RocketMQ's store: CommitLog, ConsumeQueue, IndexFile and what is derived from them.

The names below can be imported from here; each loads its module when it is first asked for, so that what needs no
kernel does not load Numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "CommitLog": "commit_log",
    "ConsumeQueue": "consume_queue",
    "Dialect": "dialect",
    "IndexFile": "index_file",
    "IndexHeader": "index_header",
    "IndexService": "index_service",
    "Scanner": "scan",
    "StoreCheckpoint": "checkpoint",
    "StoreConfig": "dialect",
    "StoreSnapshot": "store",
    "StoredMessage": "message",
    "derive_index_files": "derive_index",
}

__all__ = tuple(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
