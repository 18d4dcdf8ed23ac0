"""The entries of one file beside the log: a ConsumeQueue file, an IndexFile or the checkpoint.

Source: ``docs/formats``: consume-queue.md, index-file.md, checkpoint.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from logdex.io.env import DEFAULT_ENV, Env
from logdex.primitives.text import to_bytes
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.geometry.index_geometry import IndexGeometry, infer_index_geometry, read_header
from logdex.rocketmq.index_file.index_file import IndexFile
from logdex.rocketmq.recognise.store_path import StorePath, StorePathKind
from logdex.rocketmq.settings.store_config import StoreConfig

_ENTRIES_AT_ONCE = 1 << 14


def file_entries(
    file: StorePath,
    *,
    first: int | None = None,
    max_hash_slot_num: int | None = None,
    max_index_num: int | None = None,
    env: Env = DEFAULT_ENV,
    **_: Any,
) -> Iterator[dict[str, Any]]:
    """Yields the entries of a file that has some, from a queue offset or an entry's number on. The
    checkpoint is one entry.

    The geometry of an IndexFile is inferred unless both of its numbers are given. Raises what
    opening the file raises, such as `GeometryError` if nothing shows the geometry.
    """
    if file.kind is StorePathKind.CONSUME_QUEUE:
        return _queue_entries(file, first, env)
    if file.kind is StorePathKind.CHECKPOINT:
        return iter([StoreCheckpoint.read(file.path, env=env)._asdict()])
    geometry = None
    if max_hash_slot_num is not None and max_index_num is not None:
        geometry = IndexGeometry(max_hash_slot_num, max_index_num)
    return _index_entries(file, first, geometry, env)


def _queue_entries(file: StorePath, first: int | None, env: Env) -> Iterator[dict[str, Any]]:
    topic, queue_id = file.topic or "", -1 if file.queue_id is None else file.queue_id
    queue = ConsumeQueue(file.path, to_bytes(topic), queue_id, env=env)
    try:
        at = max(queue.start_offset, first or 0)
        while at < queue.max_offset:
            entries = queue.entries(at, _ENTRIES_AT_ONCE)
            for place, (physical_offset, size, tags_code) in enumerate(entries.tolist(), at):
                yield {
                    "queue_offset": place,
                    "physical_offset": physical_offset,
                    "size_bytes": size,
                    "tags_code": tags_code,
                }
            at += len(entries)
    finally:
        queue.close()


def _index_entries(
    file: StorePath, first: int | None, geometry: IndexGeometry | None, env: Env
) -> Iterator[dict[str, Any]]:
    with env.open_read(file.path) as opened:
        header = read_header(opened)
    if not header.entry_count:
        return
    if geometry is None:
        geometry, _ = infer_index_geometry(env, [file.path])
    with IndexFile(file.path, replace(StoreConfig(), **geometry._asdict()), env=env) as index:
        at = max(first or 1, 1)
        while at < index.header.index_count:
            found = index.entries(at, _ENTRIES_AT_ONCE)
            if not len(found.key_hash):
                return
            rows = zip(*(column.tolist() for column in found), strict=True)
            for number, (key_hash, physical_offset, seconds, previous) in enumerate(rows, at):
                yield {
                    "number": number,
                    "key_hash": key_hash,
                    "physical_offset": physical_offset,
                    "store_timestamp_ms": index.header.begin_timestamp_ms + 1000 * seconds,
                    "previous_number": previous,
                }
            at += len(found.key_hash)
