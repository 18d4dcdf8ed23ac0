"""An overview of one file beside the log: a ConsumeQueue file, an IndexFile, a checkpoint, or one
of ``config/``.

Reads headers and ends, and parses JSON. Whether the file agrees with its log is checked by `verify`
of the store. Source: ``docs/formats``: consume-queue.md, index-file.md, checkpoint.md,
config-json.md.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from logdex import limits
from logdex.errors import GeometryError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.layout.rocketmq import CHECKPOINT_FILE_SIZE_BYTES, PRE_BLANK_SIZE
from logdex.primitives.text import to_bytes
from logdex.rocketmq.consume_queue.consume_queue import ENTRY_SIZE_BYTES, ConsumeQueue
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.config_json import parse_config_json
from logdex.rocketmq.files.offset_files import offset_in_name
from logdex.rocketmq.geometry.index_geometry import infer_index_geometry, read_header
from logdex.rocketmq.recognise.store_path import StorePath, StorePathKind

_ENTRIES_AT_ONCE = 1 << 16


@dataclass(slots=True)
class FileOverview:
    """The overview of one file.

    `facts` are its values by names that end in their units. `content` is the object of a JSON file.
    `problems` are what is wrong with the file, one line per problem.
    """

    file: StorePath
    size_bytes: int
    facts: dict[str, Any]
    content: dict[int | str, Any] | None = None
    problems: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Returns the object that ``logdex info FILE --json`` prints."""
        kind = self.file.kind.name.lower()
        whole = {"path": self.file.path, "engine": "rocketmq", "kind": kind, "size_bytes": self.size_bytes} | self.facts
        if self.content is not None:
            whole["content"] = self.content
        return whole | {"problems": self.problems}


def file_overview(file: StorePath, *, env: Env = DEFAULT_ENV) -> FileOverview:
    """Returns the overview of a file that holds no messages. Raises `CorruptError` or a subclass,
    with its location, if the file is not what its place and name require."""
    return _READERS[file.kind](file, env.size_bytes(file.path), env)


def _consume_queue(file: StorePath, size_bytes: int, env: Env) -> FileOverview:
    topic, queue_id = file.topic or "", -1 if file.queue_id is None else file.queue_id
    queue = ConsumeQueue(file.path, to_bytes(topic), queue_id, env=env)
    try:
        end = queue.max_offset
        first, blank = _first_message(queue)
        facts: dict[str, Any] = {"topic": file.topic, "queue_id": file.queue_id, "entries": end - queue.start_offset}
        facts |= {"pre_blank_entries": blank, "min_offset": first, "max_offset": end}
        facts |= {"begin_phy_offset": None, "end_phy_offset": None}
        if first < end:
            last = queue.entry(end - 1)
            facts["begin_phy_offset"] = queue.entry(first).physical_offset
            facts["end_phy_offset"] = last.physical_offset + last.size_bytes
    finally:
        queue.close()
    look = FileOverview(file, size_bytes, facts)
    start = offset_in_name(posixpath.basename(file.path)) or 0
    for what, value in (("length", size_bytes), ("name, an offset,", start)):
        if value % ENTRY_SIZE_BYTES:
            look.problems.append(f"{file.path}: its {what} is {value}, no multiple of {ENTRY_SIZE_BYTES}")
    return look


def _first_message(queue: ConsumeQueue) -> tuple[int, int]:
    """Returns the queue offset of the first entry of a message, or the end if there is none, and
    the number of pre-blank entries."""
    first, blank = queue.max_offset, 0
    for start in range(queue.start_offset, queue.max_offset, _ENTRIES_AT_ONCE):
        entries = queue.entries(start, _ENTRIES_AT_ONCE)
        messages = np.flatnonzero((entries["size"] != PRE_BLANK_SIZE) | (entries["physical_offset"] != 0))
        blank += len(entries) - len(messages)
        if len(messages):
            first = min(first, start + int(messages[0]))
    return first, blank


def _index(file: StorePath, size_bytes: int, env: Env) -> FileOverview:
    with env.open_read(file.path) as opened:
        header = read_header(opened)
    facts: dict[str, Any] = {"entries": header.entry_count, **header._asdict()}
    facts |= {"max_hash_slot_num": None, "max_index_num": None}
    look = FileOverview(file, size_bytes, facts)
    if header.entry_count:  # without entries nothing shows the geometry, which is no problem
        try:
            geometry, _ = infer_index_geometry(env, [file.path])
            facts |= geometry._asdict()
        except GeometryError as error:
            look.problems.append(error.message)
    return look


def _checkpoint(file: StorePath, size_bytes: int, env: Env) -> FileOverview:
    look = FileOverview(file, size_bytes, dict(StoreCheckpoint.read(file.path, env=env)._asdict()))
    if size_bytes != CHECKPOINT_FILE_SIZE_BYTES:
        look.problems.append(f"{file.path}: {size_bytes} bytes, a checkpoint has {CHECKPOINT_FILE_SIZE_BYTES}")
    return look


def _config(file: StorePath, size_bytes: int, env: Env) -> FileOverview:
    data = env.read_file(file.path, limits.CONFIG_FILE_SIZE_BYTES_MAX)
    if data:
        return FileOverview(file, size_bytes, {}, parse_config_json(data, path=file.path))
    return FileOverview(file, 0, {}, {}, [f"{file.path}: empty: the broker falls back on the .bak file"])


_READERS: dict[StorePathKind, Callable[[StorePath, int, Env], FileOverview]] = {
    StorePathKind.CONSUME_QUEUE: _consume_queue,
    StorePathKind.INDEX: _index,
    StorePathKind.CHECKPOINT: _checkpoint,
    StorePathKind.CONFIG: _config,
}
