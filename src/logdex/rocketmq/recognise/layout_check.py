"""Layouts of a store that Logdex recognises and does not support, each by its name.

A plain ``rocksdbstore/`` is none of them: 5.4.0 and later create one in every store.
Source: ``docs/formats/store-directory.md``; StorePathConfigHelper, DLedgerCommitLog, RocksDBConsumeQueueStore,
MultiPathMappedFileQueue.
"""

from __future__ import annotations

import re

from logdex.errors import UnsupportedLayoutError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.files.store_files import CONSUME_QUEUE_DIR, StorePaths
from logdex.rocketmq.settings.broker_conf import BrokerConf

PATH_SEPARATOR = ","
"""Between the paths of storePathCommitLog."""


_FOLDERS = (
    (re.compile(r"dledger-.+"), "a DLedger CommitLog"),
    (re.compile(r"consumequeue_(r|rocksdb.*)"), "ConsumeQueues in RocksDB"),
    (re.compile(r"batchconsumequeue"), "batch ConsumeQueues"),
    (re.compile(rf".*{PATH_SEPARATOR}.*"), "a CommitLog in several store paths"),
)


def require_supported_conf(conf: BrokerConf, root: str) -> None:
    """Raises `UnsupportedLayoutError` where a broker with these properties has a store of a layout that is not
    supported."""
    paths = conf.store_path_commit_log
    if paths is not None and PATH_SEPARATOR in paths:
        raise _unsupported(f"a CommitLog in several store paths ({paths})", root)
    if conf.properties.get("enableDLegerCommitLog", "").strip().lower() == "true":
        raise _unsupported("a DLedger CommitLog (enableDLegerCommitLog)", root)
    store_type = conf.properties.get("storeType", "").strip()
    if "rocksdb" in store_type.lower():
        raise _unsupported(f"ConsumeQueues in RocksDB (storeType={store_type})", root)


def require_supported_layout(root: str, *, env: Env = DEFAULT_ENV) -> None:
    """Raises `UnsupportedLayoutError` where the store at `root` is of a layout that is not supported. Reads names only;
    a directory that is missing or empty is fine here."""
    names = _names(root, env)
    for name in names:
        for pattern, what in _FOLDERS:
            if pattern.fullmatch(name) and _names(f"{root}/{name}", env):
                raise _unsupported(what, f"{root}/{name}")
    # RocksDB's queues lie in consumequeue/ itself, or in rocksdbstore/ with nothing beside it.
    queues = StorePaths(root).consume_queue
    if _is_rocksdb(_names(queues, env)):
        raise _unsupported("ConsumeQueues in RocksDB", queues)
    rocksdb = f"{root}/rocksdbstore"
    if CONSUME_QUEUE_DIR not in names and any(name.endswith(".sst") for name in _names(rocksdb, env)):
        raise _unsupported("ConsumeQueues in RocksDB", rocksdb)


def _is_rocksdb(names: list[str]) -> bool:
    """Whether a directory's names are those of a RocksDB database."""
    return "CURRENT" in names and any(name.startswith("MANIFEST-") for name in names)


def _names(directory: str, env: Env) -> list[str]:
    return env.list_dir(directory) if env.is_dir(directory) else []


def _unsupported(what: str, path: str) -> UnsupportedLayoutError:
    return UnsupportedLayoutError(f"{what}: this layout is not supported", path=path)
