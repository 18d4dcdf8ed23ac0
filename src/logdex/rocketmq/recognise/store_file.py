"""Recognises a single file of a store: a CommitLog file, which can be read alone, or another file.

A file is recognised by its directories if it is still in a store, else by its name, else by its
first bytes. Source: ``docs/formats/store-directory.md``, ``docs/formats/commit-log.md``.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import Enum

from logdex import limits
from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, MESSAGE_HEAD, PRE_BLANK_SIZE
from logdex.rocketmq.commit_log.commit_log import begins_with_message
from logdex.rocketmq.consume_queue.consume_queue import is_queue_id
from logdex.rocketmq.files.offset_files import offset_in_name
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR, StorePaths

_INDEX_NAME = re.compile(r"[0-9]{17}")
_CONFIG_NAME = re.compile(r".+\.json(\.bak)?")
_CONFIG_FILES = {
    *("consumerFilter", "consumerOffset", "consumerOrderInfo", "delayOffset", "subscriptionGroup"),
    *("topicQueueMapping", "topics"),
}
_OTHERS = re.compile(r"consumequeue_.+|batchconsumequeue|dledger-.+|timerlog")
"""Directories of layouts that are not read, whose files are also named by offsets."""


class StoreFileKind(Enum):
    """The kinds of files."""

    COMMIT_LOG = "a CommitLog file"
    CONSUME_QUEUE = "a ConsumeQueue file"
    INDEX = "an IndexFile"
    CHECKPOINT = "a checkpoint"
    CONFIG = "one of the broker's JSON files"


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A file and its kind.

    `root` is the store that contains it, or None. A ConsumeQueue file in a store also has its
    `topic` (the directory's name) and `queue_id`.
    """

    path: str
    kind: StoreFileKind
    root: str | None = None
    topic: str | None = None
    queue_id: int | None = None


def recognise_file(path: str, *, env: Env = DEFAULT_ENV) -> StoreFile | None:
    """Recognises the file at `path`; None for a directory, a missing file, and a file of no
    store."""
    if not env.is_file(path):
        return None
    name, folder = posixpath.basename(path), posixpath.dirname(env.real_path(path))
    return _by_folder(path, name, folder) or _by_name(path, name, folder, env) or _by_content(path, name, folder, env)


def _by_folder(path: str, name: str, folder: str) -> StoreFile | None:
    parent, above = posixpath.basename(folder), posixpath.dirname(folder)
    is_offset = offset_in_name(name) is not None
    if parent == COMMIT_LOG_DIR and is_offset:
        return StoreFile(path, StoreFileKind.COMMIT_LOG, above)
    if parent == INDEX_DIR and _INDEX_NAME.match(name) and name.isdigit():
        return StoreFile(path, StoreFileKind.INDEX, above)
    if parent == "config" and _CONFIG_NAME.fullmatch(name):
        return StoreFile(path, StoreFileKind.CONFIG, above)
    queues = posixpath.dirname(above)
    if posixpath.basename(queues) == CONSUME_QUEUE_DIR and is_offset and is_queue_id(parent):
        root, topic = posixpath.dirname(queues), posixpath.basename(above)
        return StoreFile(path, StoreFileKind.CONSUME_QUEUE, root, topic, int(parent))
    return None


def _by_name(path: str, name: str, folder: str, env: Env) -> StoreFile | None:
    if _INDEX_NAME.fullmatch(name):
        return StoreFile(path, StoreFileKind.INDEX)
    if name == "checkpoint":
        return StoreFile(path, StoreFileKind.CHECKPOINT, folder if env.is_dir(StorePaths(folder).commit_log) else None)
    if _CONFIG_NAME.fullmatch(name) and name.partition(".")[0] in _CONFIG_FILES:
        return StoreFile(path, StoreFileKind.CONFIG)
    return None


def _by_content(path: str, name: str, folder: str, env: Env) -> StoreFile | None:
    if any(_OTHERS.fullmatch(part) for part in folder.split("/")[-3:]):
        return None
    with env.open_read(path) as file:
        head, size = file.read_at(0, MESSAGE_HEAD.size_bytes), file.size_bytes
    if begins_with_message(head):
        return StoreFile(path, StoreFileKind.COMMIT_LOG)
    if offset_in_name(name) is None:
        return None
    is_queue = size % CONSUME_QUEUE_ENTRY.size_bytes == 0 and _begins_with_entry(head)
    return StoreFile(path, StoreFileKind.CONSUME_QUEUE if is_queue else StoreFileKind.COMMIT_LOG)


def _begins_with_entry(head: bytes) -> bool:
    if len(head) < CONSUME_QUEUE_ENTRY.size_bytes:
        return False
    physical_offset: int
    size: int
    physical_offset, size, _ = CONSUME_QUEUE_ENTRY.struct.unpack_from(head)
    return physical_offset >= 0 and (0 < size <= limits.MESSAGE_SIZE_BYTES_MAX or size == PRE_BLANK_SIZE)
