"""What else tells of messages behind the end of a log, because the log's last file was cut or lost.

A broker writes a message first, and then what tells of it. So after a clean end nothing tells of
more than the log has, but for what a broker's recovery leaves when it cuts a log: the bytes of
entries behind the new end of a ConsumeQueue, and offsets that groups had committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from logdex.errors import StoreError
from logdex.io.env import Env
from logdex.io.open_files import OpenFiles
from logdex.primitives.shown import counted, utc_time
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue, discover_queues
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.index_paths import newest_indexed
from logdex.rocketmq.settings.store_config import StoreConfig

RESTORE_LAST_FILE = "the log's last file may be cut or missing: restore it first, if there is a copy"


@dataclass(frozen=True, slots=True)
class Tells:
    """`text` says which messages behind the end something tells of. `offset` is the physical offset
    of the last one, None if it is not known. `is_sure` is False for what a recovery leaves too."""

    text: str
    offset: int | None
    is_sure: bool = True


def find_lost_end(
    root: str, end_offset: int, newest_ms: int, config: StoreConfig, env: Env, *, skew_ms: int = 0
) -> list[Tells]:
    """Returns what tells of messages behind the end of the log of a store, whose newest message was
    stored at `newest_ms`, or up to `skew_ms` later, if the clock went back. What cannot be read
    tells nothing."""
    paths = StorePaths(root)
    found = [
        Tells(f"{path}: it has keys of messages up to physical offset {last}, and the log ends at {end_offset}", last)
        for path, last in newest_indexed(paths.index, env)[-1:]
        if last >= end_offset
    ]
    flushed_ms = _flushed_ms(paths.checkpoint, env)
    is_ahead = flushed_ms is not None and flushed_ms > newest_ms + skew_ms
    if flushed_ms is not None and is_ahead:
        times = f"a message of {utc_time(flushed_ms)} was flushed, and the log's newest is of {utc_time(newest_ms)}"
        found.append(Tells(f"{paths.checkpoint}: {times}", None))
    entries, last = _entries_behind(_queues(root, config, env), end_offset)
    if entries:
        point = counted(entries, "entry points", "entries point")
        text = f"{paths.consume_queue}: {point} behind the log's end at {end_offset}, up to physical offset {last}"
        found.append(Tells(text, last, is_sure=flushed_ms is None or bool(found)))
    return found


def losses_and_notes(
    root: str, end_offset: int, newest_ms: int, config: StoreConfig, env: Env, *, named: int = 0
) -> tuple[list[str], list[str]]:
    """Returns what to report of `find_lost_end`, as (losses, notes), without what tells only of
    bytes before `named`. It is a loss, unless a broker runs or was killed: what it writes may be on
    disk ahead of the log."""
    losses, notes = list[str](), list[str]()
    for tells in find_lost_end(root, end_offset, newest_ms, config, env):
        offset = end_offset if tells.offset is None else tells.offset
        if named > offset:
            continue
        is_unclean = env.exists(StorePaths(root).abort)
        if (is_unclean or tells.is_sure) and _has_grown(root, offset, config, env):
            notes.append(f"{tells.text}: a broker has written on meanwhile")
        elif is_unclean:
            notes.append(f"{tells.text}: a broker that runs, or was killed, writes it ahead of the log")
        elif not tells.is_sure:
            notes.append(f"{tells.text}, as if a recovery had cut it")
        else:
            losses.append(f"{tells.text}: the log's last messages are lost, unless there is a copy of their file")
    return losses, notes


def _has_grown(root: str, offset: int, config: StoreConfig, env: Env) -> bool:
    """Whether the log has a message at a physical offset by now."""
    with CommitLog.of_config(root, config, env=env) as log, suppress(StoreError):
        log.read_message(offset)
        return True
    return False


def _flushed_ms(path: str, env: Env) -> int | None:
    try:
        return StoreCheckpoint.read(path, env=env).physic_msg_timestamp_ms if env.exists(path) else None
    except StoreError:
        return None


def _queues(root: str, config: StoreConfig, env: Env) -> Iterable[ConsumeQueue]:
    size, open_files = config.consume_queue_file_size_bytes, OpenFiles(env)
    for topic, queue_id, directory in discover_queues(root, env=env):
        try:
            yield ConsumeQueue(directory, topic, queue_id, file_size_bytes=size, env=env, open_files=open_files)
        except StoreError:
            continue  # whoever reads the queue reports it
    open_files.close()


def _entries_behind(queues: Iterable[ConsumeQueue], end_offset: int) -> tuple[int, int]:
    """Returns how many entries point behind the end of the log, and to what physical offset at
    most."""
    count, last = 0, 0
    for queue in queues:
        try:
            behind = queue.max_offset - queue.max_offset_in(end_offset)
            if behind > 0:
                last = max(last, queue.entry(queue.max_offset - 1).physical_offset)
                count += behind
        except StoreError:
            continue
    return count, last
