"""Checks that a path is a readable store; otherwise reports what it is and which path to give.

Source: ``docs/formats/store-directory.md``. A directory of Kafka is refused by name.
"""

from __future__ import annotations

import posixpath
import re

from logdex.errors import LogdexError, NotAStoreError, UnsupportedLayoutError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR, StorePaths
from logdex.rocketmq.recognise.layout_check import require_supported_layout
from logdex.rocketmq.recognise.store_file import StoreFile, StoreFileKind, recognise_file

_KAFKA_SEGMENT = re.compile(r"\d{20}\.(log|index|timeindex)")
_KAFKA_PARTITION = re.compile(r".+-\d+")
_KAFKA_FILES = {"meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"}
_PARTS_OF_A_STORE = {COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR, "config"}
_KAFKA_HINT = "logdex.open reads it, and so does every command but `message`"
_HINT = "give the store's root, the folder that holds commitlog/, or a CommitLog file, named by its offset in 20 digits"


def require_store(root: str, *, env: Env = DEFAULT_ENV, hint: str = _HINT) -> None:
    """Raises unless `root` is a RocketMQ store with a CommitLog, or a CommitLog file.

    `NotAStoreError` states what `root` is and which path to give; if nothing leads to a store,
    `hint` states what can be given. `UnsupportedLayoutError` names a layout that is not read. Reads
    only names and the beginning of a file.
    """
    if not env.exists(root):
        raise NotAStoreError("no such file or directory", path=root, hint="check the path")
    if not env.is_dir(root):
        found = recognise_file(root, env=env)
        if found is not None and found.kind is StoreFileKind.COMMIT_LOG:
            return
        raise _file_error(root, found, hint)
    names = env.list_dir(root)
    require_supported_layout(root, env=env)
    if env.is_dir(StorePaths(root).commit_log):
        return
    kafka = _kafka_directory(root, names, env)
    if kafka:
        raise UnsupportedLayoutError(f"{kafka}, no RocketMQ store", path=root, hint=_KAFKA_HINT)
    raise _directory_error(root, names, env, hint)


def _file_error(path: str, found: StoreFile | None, hint: str) -> LogdexError:
    if _KAFKA_SEGMENT.fullmatch(posixpath.basename(path)):
        return UnsupportedLayoutError("a file of a Kafka log, no RocketMQ store", path=path, hint=_KAFKA_HINT)
    if found is not None:
        instead = "the store's root or a CommitLog file" if found.root is None else f"the store's root: {found.root}"
        return NotAStoreError(
            f"{found.kind.value}, which holds no messages",
            path=path,
            hint=f"give {instead}; logdex info shows what this file says",
        )
    return NotAStoreError("a file, not a store's folder", path=path, hint=hint)


def _kafka_directory(root: str, names: list[str], env: Env) -> str | None:
    """Which Kafka directory this is, or None."""
    if any(_KAFKA_SEGMENT.fullmatch(name) for name in names):
        return "a Kafka partition"
    if _KAFKA_FILES & set(names):
        return "a Kafka log directory"
    for name in names:
        inner = f"{root}/{name}"
        is_partition = _KAFKA_PARTITION.fullmatch(name) and env.is_dir(inner)
        if is_partition and any(_KAFKA_SEGMENT.fullmatch(file) for file in env.list_dir(inner)):
            return "a Kafka log directory"
    return None


def _directory_error(root: str, names: list[str], env: Env, hint: str) -> NotAStoreError:
    if not names:
        return NotAStoreError("an empty directory", path=root, hint=hint)
    above = posixpath.dirname(root.rstrip("/")) or "."
    if posixpath.basename(root.rstrip("/")) in _PARTS_OF_A_STORE:
        return NotAStoreError("a part of a store", path=root, hint=f"give the store's root: {above}")
    inner = next((name for name in names if env.is_dir(f"{root}/{name}/commitlog")), None)
    if inner is not None:
        return NotAStoreError("holds no commitlog/", path=root, hint=f"there is a store in {root.rstrip('/')}/{inner}")
    return NotAStoreError("holds no commitlog/", path=root, hint=hint)
