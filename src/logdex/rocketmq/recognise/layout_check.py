"""Refuses store layouts that Logdex recognises but does not support, by name.

A plain ``rocksdbstore/`` is none of them: 5.4.0 and later create one in every store. Source:
``docs/formats/store-directory.md``; StorePathConfigHelper, DLedgerCommitLog,
RocksDBConsumeQueueStore, MultiPathMappedFileQueue.
"""

from __future__ import annotations

import re

from logdex.errors import UnsupportedLayoutError
from logdex.io.path_look import PathLook
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR, ROCKSDB_DIR
from logdex.rocketmq.settings.broker_conf import BrokerConf

PATH_SEPARATOR = ","
"""Separates the paths in storePathCommitLog."""

_FOLDERS = (
    (re.compile(r"dledger-.+"), "a DLedger CommitLog"),
    (re.compile(r"consumequeue_(r|rocksdb.*)"), "ConsumeQueues in RocksDB"),
    (re.compile(r"batchconsumequeue"), "batch ConsumeQueues"),
    (re.compile(rf".*{PATH_SEPARATOR}.*"), "a CommitLog in several store paths"),
)


def require_supported_conf(conf: BrokerConf, root: str) -> None:
    """Raises `UnsupportedLayoutError` if these properties configure an unsupported layout."""
    if conf.properties.get("enableDLegerCommitLog", "").strip().lower() == "true":
        raise _unsupported("a DLedger CommitLog (enableDLegerCommitLog)", root)
    store_type = conf.properties.get("storeType", "").strip()
    if "rocksdb" in store_type.lower():
        raise _unsupported(f"ConsumeQueues in RocksDB (storeType={store_type})", root)


def require_supported_layout(look: PathLook) -> None:
    """Raises `UnsupportedLayoutError` if the store at a path has an unsupported layout.

    Reads names only. A missing or empty directory passes.
    """
    names = look.names()
    for name in names:
        for pattern, what in _FOLDERS:
            if pattern.fullmatch(name) and look.names(name):
                raise _unsupported(what, f"{look.path}/{name}")
    # RocksDB's queues are in consumequeue/ itself, or in rocksdbstore/ without a consumequeue/.
    if _is_rocksdb(look.names(CONSUME_QUEUE_DIR)):
        raise _unsupported("ConsumeQueues in RocksDB", f"{look.path}/{CONSUME_QUEUE_DIR}")
    if CONSUME_QUEUE_DIR not in names and any(name.endswith(".sst") for name in look.names(ROCKSDB_DIR)):
        raise _unsupported("ConsumeQueues in RocksDB", f"{look.path}/{ROCKSDB_DIR}")


def _is_rocksdb(names: list[str]) -> bool:
    """Whether a directory contains a RocksDB database."""
    return "CURRENT" in names and any(name.startswith("MANIFEST-") for name in names)


def _unsupported(what: str, path: str) -> UnsupportedLayoutError:
    return UnsupportedLayoutError(f"{what}: this layout is not supported", path=path)
