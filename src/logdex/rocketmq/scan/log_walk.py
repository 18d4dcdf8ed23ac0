"""Going through a CommitLog from a known place, message after message by small reads.

This reads the bytes of the few messages behind a known place and no others, and needs no kernel.
For many messages use `logdex.rocketmq.scan.scanner`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from logdex.errors import CorruptError, MissingFileError
from logdex.io.env import Env
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd, end_at_zeros, next_file_or_end, zeros_at
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import tags_code
from logdex.rocketmq.settings.store_config import StoreConfig

STEPS_MAX = 64
"""Messages that are read one by one before the scan kernel takes over."""


def walk(
    log: CommitLog, offset: int, config: StoreConfig, env: Env, *, look_behind: bool = True
) -> Generator[tuple[int, StoredMessage], None, tuple[int, LogEnd | None]]:
    """(physical offset, message) from `offset` on, which is a message's, a filler's or the end's.

    Returns the offset where no message follows, and the log's end there; None in its place where
    something damaged is there: then the scan tells what it is. Without `look_behind` zeros are not
    told from a hole, since that takes reading what is behind them.
    """
    while True:
        message = readable(log, offset)
        if message is not None and tags_code(message, config) is not None:
            yield offset, message
            offset += message.size_bytes
            continue
        following = _next_file_or_end(log, offset, env if look_behind else None)
        if not isinstance(following, CommitLogFile):
            return offset, following
        offset = following.start_offset


def _next_file_or_end(log: CommitLog, offset: int, env: Env | None) -> CommitLogFile | LogEnd | None:
    """The file that the log goes on in behind `offset`, or its end there; None for damage. With
    `env` it looks at what is behind zeros."""
    file = log.file_at_or_before(offset)
    position = min(offset - file.start_offset, file.size_bytes)
    if position == file.size_bytes:
        return next_file_or_end(log, file, position, None)
    head = log.read(offset, min(BLANK.size_bytes, file.size_bytes - position))
    if len(head) < BLANK.size_bytes:
        return None
    if not any(head):
        if env is None:
            return zeros_at(file, position)
        with env.map_read(file.path) as mapped:
            return next_file_or_end(log, file, position, end_at_zeros(file, position, mapped.array))
    _, magic = BLANK.struct.unpack(head)
    return next_file_or_end(log, file, position, None) if magic == BLANK_MAGIC else None


def readable(log: CommitLog, offset: int) -> StoredMessage | None:
    """The whole message at a physical offset, None where there is none."""
    try:
        return log.read_message(offset)
    except (CorruptError, MissingFileError):
        return None


def newest_written(log: CommitLog) -> CommitLogFile:
    """The newest file that begins with anything but zeros, else the first one."""
    for file in reversed(log.files):
        if any(log.read(file.start_offset, min(BLANK.size_bytes, file.size_bytes))):
            return file
    return log.files[0]


def newest_start(log: CommitLog, known: Iterable[int]) -> int:
    """The newest of the `known` offsets where a message lies that names this place as its own, else
    the start of the newest file that begins with a message."""
    newest_first = sorted(known, reverse=True)
    newest = newest_written(log)
    for file in reversed(log.files):
        if file.start_offset > newest.start_offset:
            continue  # made ahead, nothing is in it
        for offset in newest_first:
            if file.start_offset <= offset < file.end_offset and _names_itself(log, offset):
                return offset
        if readable(log, file.start_offset):
            return file.start_offset
    return log.min_offset


def _names_itself(log: CommitLog, offset: int) -> bool:
    message = readable(log, offset)
    return message is not None and message.physical_offset == offset
