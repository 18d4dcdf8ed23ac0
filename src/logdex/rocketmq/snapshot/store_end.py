"""Where the log of a store ends, found from the newest message that its derived files point to: one
definition for `StoreSnapshot` and for `info`.

The newest IndexFile points to a message near the end and needs two small reads. The queues, of
which there may be thousands, are read only if no IndexFile points into the newest file of the log.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from logdex.errors import MissingFileError, StoreError, VanishedError
from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import AHEAD_BYTES, CommitLog
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.consume_queue.consume_queue import ConsumeQueue
from logdex.rocketmq.files.offset_files import offset_in_name
from logdex.rocketmq.files.store_files import StorePaths
from logdex.rocketmq.index_file.index_paths import newest_indexed
from logdex.rocketmq.read.parts.behind_damage import position_behind
from logdex.rocketmq.scan.log_extent import LogExtent, find_valid_end, scan_extent
from logdex.rocketmq.scan.log_walk import newest_written
from logdex.rocketmq.settings.store_config import StoreConfig

_LISTINGS_MAX = 10
_LOOKS = 3


def find_store_end(
    root: str,
    log: CommitLog,
    queues: Iterable[ConsumeQueue],
    config: StoreConfig,
    env: Env,
    *,
    look_behind: bool = True,
) -> LogExtent:
    """Returns the end of the log of the store at `root`, found from the newest known message.
    `queues` are read only if the IndexFiles point to no message in the log's newest file.
    `look_behind` is passed to `find_valid_end`. `log` is listed again if a broker has meanwhile
    removed a file of it. An end that is not clean is looked for twice, because that of a log which
    is cut meanwhile, and grows again, seems to be damaged."""
    for _ in range(_LISTINGS_MAX):
        try:
            known = _known(root, log, queues, env)
            found = find_valid_end(log, known, config, look_behind=look_behind, env=env)
            if found.end.is_clean:
                return found
            log.close()
            return find_valid_end(log, known, config, look_behind=look_behind, env=env)
        except VanishedError as error:
            if not _was_removed(log, error.path):
                raise
            log.refresh()
    raise MissingFileError("a broker removes its files faster than they are read", path=log.directory)


def _was_removed(log: CommitLog, path: str) -> bool:
    """Whether a broker has removed a file of the log: an old one, or one that it had made ahead, as
    a broker that shuts down does. It has made two ahead, and may remove the first one first."""
    start = offset_in_name(posixpath.basename(path))
    for look in range(_LOOKS):
        if look:
            look_again.pause()
        if log.was_trimmed(log.min_offset if start is None else start):
            return True
    return False


def _known(root: str, log: CommitLog, queues: Iterable[ConsumeQueue], env: Env) -> list[int]:
    """Returns the physical offsets of the newest messages that derived files point to."""
    newest = newest_written(log)
    known = [offset for _, offset in newest_indexed(StorePaths(root).index, env)]
    if not any(newest.start_offset <= offset < newest.end_offset for offset in known):
        known += [offset for queue in queues if (offset := _last_of_queue(queue, log)) is not None]
    return known


def was_cut(log: CommitLog, end: LogEnd) -> bool:
    """Whether the message before `end`, where the log was found to end, is not there any more. The
    log is listed again."""
    if end.last_message is None or log.is_one_file:
        return False
    log.refresh()
    try:
        last = log.read_message(end.last_message, ahead_bytes=AHEAD_BYTES)
    except StoreError:
        return True
    return end.last_message + last.size_bytes != end.offset


def find_readable_end(root: str, log: CommitLog, end: LogEnd, config: StoreConfig, env: Env) -> LogEnd:
    """Returns where a log ends for a reader that goes on behind damage, of which `end` is the
    first. It is `end` if no message follows."""
    while not end.is_clean:
        following = _message_behind(root, log, end, config, env)
        if following is None:
            return end
        end = scan_extent(log, following, config, env=env).end
    return end


def _message_behind(root: str, log: CommitLog, end: LogEnd, config: StoreConfig, env: Env) -> int | None:
    """Returns the physical offset of the first message behind damage, None if there is none."""
    file = log.file_at_or_before(end.offset)
    if end.path == file.path and end.offset < file.end_offset:
        position = position_behind(file, end, root, config, env)
        if position is not None:
            return file.start_offset + position
    following = log.file_behind(file)
    while following is not None and not any(
        log.read(following.start_offset, min(BLANK.size_bytes, following.size_bytes))
    ):
        following = log.file_behind(following)  # made ahead, or lost
    return None if following is None else following.start_offset


def _last_of_queue(queue: ConsumeQueue, log: CommitLog) -> int | None:
    """Returns the physical offset of a queue's last message, or None if it cannot be in this
    log."""
    try:
        end = queue.max_offset_in(log.end_offset)
        if end <= queue.start_offset:
            return None
        entry = queue.entry(end - 1)
    except StoreError:
        return None  # reading the queue reports it
    inside = log.min_offset <= entry.physical_offset < log.end_offset
    return entry.physical_offset if entry.is_message and inside else None
