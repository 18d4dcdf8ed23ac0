"""Recognises what of RocketMQ is at a path: a store, or a single file of a store.

A CommitLog file can be read alone; the other files go with a CommitLog.

A file is recognised by its directories if it is still in a store, else by its name, else by its
first bytes. Source: ``docs/formats/store-directory.md``, ``docs/formats/commit-log.md``.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from logdex import limits
from logdex.io.path_look import PathLook
from logdex.jobs.journal import LOCK_NAME
from logdex.layout.rocketmq import CONSUME_QUEUE_ENTRY, PRE_BLANK_SIZE
from logdex.rocketmq.commit_log.commit_log import begins_with_message
from logdex.rocketmq.consume_queue.consume_queue import is_queue_id
from logdex.rocketmq.files.offset_files import offset_in_name
from logdex.rocketmq.files.store_files import COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR
from logdex.rocketmq.recognise.layout_check import require_supported_layout

_INDEX_NAME = re.compile(r"[0-9]{17}")
_CONFIG_NAME = re.compile(r".+\.json(\.bak)?")
_CONFIG_FILES = {
    *("consumerFilter", "consumerOffset", "consumerOrderInfo", "delayOffset", "subscriptionGroup"),
    *("topicQueueMapping", "topics"),
}
_OTHERS = re.compile(r"consumequeue_.+|batchconsumequeue|dledger-.+|timerlog")
"""Directories of layouts that are not read, whose files are also named by offsets."""
KAFKA_FILE = re.compile(r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot|keyindex)")
"""The names of Kafka's files. No file of a store has such a name, whatever its first bytes are."""


class StorePathKind(Enum):
    """The kinds of paths."""

    STORE = "a RocketMQ store"
    COMMIT_LOG = "a CommitLog file"
    CONSUME_QUEUE = "a ConsumeQueue file"
    INDEX = "an IndexFile"
    CHECKPOINT = "a checkpoint"
    CONFIG = "one of the broker's JSON files"


@dataclass(frozen=True, slots=True)
class StorePath:
    """A path and its kind.

    `root` is the store itself, or the store that contains a file, or None. A ConsumeQueue file in a
    store also has its `topic` (the directory's name) and `queue_id`.
    """

    format: ClassVar[str] = "rocketmq"

    path: str
    kind: StorePathKind
    root: str | None = None
    topic: str | None = None
    queue_id: int | None = None

    @property
    def description(self) -> str:
        """``a RocketMQ store``, ``a CommitLog file``, ``a checkpoint``."""
        return self.kind.value

    @property
    def is_one_file(self) -> bool:
        """Whether this is a CommitLog file given by itself."""
        return self.kind is StorePathKind.COMMIT_LOG

    @property
    def has_entries(self) -> bool:
        """Whether this is a file that consists of entries."""
        return self.kind in (StorePathKind.CONSUME_QUEUE, StorePathKind.INDEX, StorePathKind.CHECKPOINT)

    @property
    def holds_messages(self) -> bool:
        """Whether there is a CommitLog to read."""
        return self.kind in (StorePathKind.STORE, StorePathKind.COMMIT_LOG)


def recognise(look: PathLook) -> StorePath | None:
    """Recognises what is at a path; None if it is no store and no file of a store.

    Raises `UnsupportedLayoutError` for a store whose layout is not read.
    """
    if look.is_dir(COMMIT_LOG_DIR) or _has_log_elsewhere(look) or _has_log_set_aside(look):
        require_supported_layout(look)
        return StorePath(look.path, StorePathKind.STORE, look.path)
    name = posixpath.basename(look.path)
    if not look.is_file() or KAFKA_FILE.fullmatch(name):
        return None
    folder = posixpath.dirname(look.real_path)
    found = _by_folder(look.path, name, folder) or _by_name(look, name, folder)
    return found or _by_content(look, name, folder)


def _has_log_elsewhere(look: PathLook) -> bool:
    """Whether this is a store whose CommitLog lies elsewhere (storePathCommitLog), or is lost."""
    return look.is_dir(CONSUME_QUEUE_DIR) and "checkpoint" in look.names()


def _has_log_set_aside(look: PathLook) -> bool:
    """Whether this is a store whose ``commitlog/`` has only its dated name, because a recovery in
    place was killed between two renames. Its journal is there, and the next run undoes it."""
    names = look.names() if look.is_dir() else []
    return LOCK_NAME in names and any(name.startswith(f"{COMMIT_LOG_DIR}.") for name in names)


def _by_folder(path: str, name: str, folder: str) -> StorePath | None:
    parent, above = posixpath.basename(folder), posixpath.dirname(folder)
    is_offset = offset_in_name(name) is not None
    if parent == COMMIT_LOG_DIR and is_offset:
        return StorePath(path, StorePathKind.COMMIT_LOG, above)
    if parent == INDEX_DIR and _INDEX_NAME.match(name) and name.isdigit():
        return StorePath(path, StorePathKind.INDEX, above)
    if parent == "config" and _CONFIG_NAME.fullmatch(name):
        return StorePath(path, StorePathKind.CONFIG, above)
    queues = posixpath.dirname(above)
    if posixpath.basename(queues) == CONSUME_QUEUE_DIR and is_offset and is_queue_id(parent):
        root, topic = posixpath.dirname(queues), posixpath.basename(above)
        return StorePath(path, StorePathKind.CONSUME_QUEUE, root, topic, int(parent))
    return None


def _by_name(look: PathLook, name: str, folder: str) -> StorePath | None:
    path = look.path
    if _INDEX_NAME.fullmatch(name):
        return StorePath(path, StorePathKind.INDEX)
    if name == "checkpoint":
        has_log = look.env.is_dir(posixpath.join(folder, COMMIT_LOG_DIR))
        return StorePath(path, StorePathKind.CHECKPOINT, folder if has_log else None)
    if _CONFIG_NAME.fullmatch(name) and name.partition(".")[0] in _CONFIG_FILES:
        return StorePath(path, StorePathKind.CONFIG)
    return None


def _by_content(look: PathLook, name: str, folder: str) -> StorePath | None:
    if any(_OTHERS.fullmatch(part) for part in folder.split("/")[-3:]):
        return None
    path = look.path
    head, size = look.beginning
    if begins_with_message(head):
        return StorePath(path, StorePathKind.COMMIT_LOG)
    if offset_in_name(name) is None:
        return None
    is_queue = size % CONSUME_QUEUE_ENTRY.size_bytes == 0 and _begins_with_entry(head)
    return StorePath(path, StorePathKind.CONSUME_QUEUE if is_queue else StorePathKind.COMMIT_LOG)


def _begins_with_entry(head: bytes) -> bool:
    if len(head) < CONSUME_QUEUE_ENTRY.size_bytes:
        return False
    physical_offset: int
    size: int
    physical_offset, size, _ = CONSUME_QUEUE_ENTRY.struct.unpack_from(head)
    return physical_offset >= 0 and (0 < size <= limits.MESSAGE_SIZE_BYTES_MAX or size == PRE_BLANK_SIZE)
