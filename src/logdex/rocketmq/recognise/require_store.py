"""Checks that a path is a readable store; otherwise reports what it is and which path to give.

Source: ``docs/formats/store-directory.md``. A directory of Kafka is refused by name.
"""

from __future__ import annotations

import posixpath
import re
import shlex

from logdex.errors import LogdexError, NotAStoreError, UnsupportedLayoutError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.io.path_look import PathLook, StrPath
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import begins_with_message
from logdex.rocketmq.files.offset_files import offset_in_name
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.rocketmq.recognise.layout_check import require_supported_layout
from logdex.rocketmq.recognise.store_path import KAFKA_FILE, StorePath, recognise

_KAFKA_PARTITION = re.compile(r".+-\d+")
_KAFKA_FILES = {"meta.properties", "recovery-point-offset-checkpoint", "log-start-offset-checkpoint"}
_PARTS_OF_A_STORE = {COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR, "config"}
_KAFKA_HINT = "logdex.open_kafka reads it, and so does every command but `message` and `follow`"
_HINT = "give the store's root, the folder that holds commitlog/, or a CommitLog file, named by its offset in 20 digits"


def require_store(path: StrPath | StorePath, *, env: Env = DEFAULT_ENV) -> StorePath:
    """Returns the RocketMQ store with a CommitLog, or the CommitLog file, at `path`.

    A path that was recognised already is not looked at again. `NotAStoreError` states what `path`
    is instead and which path to give. `UnsupportedLayoutError` names a layout that is not read.
    Reads only names and the beginning of a file.
    """
    if isinstance(path, StorePath):
        found: StorePath | None = path
    else:
        look = PathLook(path, env)
        found = recognise(look)
        if found is None:
            raise why_not(look, _HINT)
    assert found is not None
    if not found.holds_messages:
        raise _no_messages(found)
    return found


def why_not(look: PathLook, hint: str) -> LogdexError:
    """Returns the reason why `recognise` finds no store at a path.

    If nothing there leads to a store, `hint` states what can be given. Raises
    `UnsupportedLayoutError` for a layout that is not supported.
    """
    if not look.exists():
        return NotAStoreError("there is no such file or directory", path=look.path, hint="check the path")
    if not look.is_dir():
        if KAFKA_FILE.fullmatch(posixpath.basename(look.path)):
            return UnsupportedLayoutError(
                "this is a file of a Kafka log, not a RocketMQ store", path=look.path, hint=_KAFKA_HINT
            )
        return NotAStoreError("this is a file, not a store's directory", path=look.path, hint=hint)
    require_supported_layout(look)
    kafka = _kafka_directory(look)
    if kafka:
        return UnsupportedLayoutError(f"this is {kafka}, not a RocketMQ store", path=look.path, hint=_KAFKA_HINT)
    return _directory_error(look, hint)


def _no_messages(found: StorePath) -> NotAStoreError:
    instead = "the store's root or a CommitLog file" if found.root is None else f"the store's root: {found.root}"
    return NotAStoreError(
        f"this is {found.description}, which contains no messages",
        path=found.path,
        hint=f"give {instead}; logdex info shows the contents of this file",
    )


def _kafka_directory(look: PathLook) -> str | None:
    """Which Kafka directory this is, or None."""
    names = look.names()
    if any(KAFKA_FILE.fullmatch(name) for name in names):
        return "a Kafka partition"
    if _KAFKA_FILES & set(names):
        return "a Kafka log directory"
    for name in names:
        if _KAFKA_PARTITION.fullmatch(name) and any(KAFKA_FILE.fullmatch(file) for file in look.names(name)):
            return "a Kafka log directory"
    return None


def _directory_error(look: PathLook, hint: str) -> NotAStoreError:
    names, path = look.names(), look.path
    if not names:
        return NotAStoreError("the directory is empty", path=path, hint=hint)
    if posixpath.basename(path) in _PARTS_OF_A_STORE:
        above = posixpath.dirname(path) or "."
        return NotAStoreError("this is only a part of a store", path=path, hint=f"give the store's root: {above}")
    if _holds_commit_log(look):
        return NotAStoreError(
            "this is the CommitLog of a store, without the store",
            path=path,
            hint=f"give it a store's root: mkdir STORE && mv {shlex.quote(path)} STORE/{COMMIT_LOG_DIR}",
        )
    inner = next((name for name in names if look.is_dir(f"{name}/{COMMIT_LOG_DIR}")), None)
    if inner is not None:
        hint = f"there is a store in {path}/{inner}"
    return NotAStoreError("the directory has no commitlog/", path=path, hint=hint)


def _holds_commit_log(look: PathLook) -> bool:
    """Whether the first file with an offset as its name begins with a message or a blank."""
    first = next((name for name in look.names() if offset_in_name(name) is not None), None)
    if first is None or not look.inner(first).is_file():
        return False
    head, _ = look.inner(first).beginning
    return begins_with_message(head) or head[4 : BLANK.size_bytes] == BLANK_MAGIC.to_bytes(4, "big")
