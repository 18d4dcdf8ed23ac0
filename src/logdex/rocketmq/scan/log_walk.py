"""Walks a CommitLog from a known place, message by message, with small reads.

Only the bytes of the few messages after the known place are read, and no kernel is needed. For many
messages use `logdex.rocketmq.scan.scanner`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import suppress

from logdex.errors import CorruptError, MissingFileError, UsageError, VanishedError
from logdex.io.env import Env
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd, end_at_zeros, next_file_or_end, zeros_at
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message.tags_code import tags_code
from logdex.rocketmq.settings.store_config import StoreConfig

STEPS_MAX = 64
"""The number of messages that are read one by one before the scan kernel takes over."""


def walk(
    log: CommitLog, offset: int, config: StoreConfig, env: Env, *, look_behind: bool = True
) -> Generator[tuple[int, StoredMessage], None, tuple[int, LogEnd | None]]:
    """Yields (physical offset, message) from `offset` on, where a message, a filler or the log's
    end must be.

    Returns (the offset where no message follows, the log's end there). The log's end is None if
    there is damage or a hole, which a scan tells from a message that a broker is writing. Without
    `look_behind`, a hole in the log is treated as its end, because telling them apart requires
    reading the bytes after the zeros.
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
    """Returns the file where the log continues after `offset`, or the log's end there; None for
    damage or a hole. With `env`, the bytes after zeros are read."""
    file = log.file_at_or_before(offset)
    position = min(offset - file.start_offset, file.size_bytes)
    if position == file.size_bytes:
        return next_file_or_end(log, file, position, None)
    try:
        head = log.read(offset, min(BLANK.size_bytes, file.size_bytes - position))
    except VanishedError:
        if not log.was_trimmed(offset):
            raise
        return next_file_or_end(log, file, 0, None)
    if len(head) < BLANK.size_bytes:
        return None
    if not any(head):
        if env is None:
            return zeros_at(file, position)
        with env.map_read(file.path, partly=True) as mapped:
            end = end_at_zeros(file, position, mapped.array)
        return next_file_or_end(log, file, position, end) if end.is_clean else None
    _, magic = BLANK.struct.unpack(head)
    return next_file_or_end(log, file, position, None) if magic == BLANK_MAGIC else None


def readable(log: CommitLog, offset: int) -> StoredMessage | None:
    """Returns the whole message at a physical offset, or None if there is none."""
    try:
        return log.read_message(offset)
    except (CorruptError, MissingFileError):
        return None


def newest_written(log: CommitLog) -> CommitLogFile:
    """Returns the newest file that begins with anything but zeros, else the first one. Files that
    are gone are passed over: a broker that shuts down removes those that it has made ahead."""
    for file in reversed(log.files):
        with suppress(VanishedError):
            if any(log.read(file.start_offset, min(BLANK.size_bytes, file.size_bytes))):
                return file
    return log.files[0]


def newest_start(log: CommitLog, known: Iterable[int]) -> int:
    """Returns the newest of the `known` offsets at which a message is that stores this offset as
    its own. Without one, returns the start of the newest file that begins with a message."""
    newest_first = sorted(known, reverse=True)
    newest = newest_written(log)
    for file in reversed(log.files):
        if file.start_offset > newest.start_offset:
            continue  # created in advance, holds no messages
        for offset in newest_first:
            if file.start_offset <= offset < file.end_offset and _names_itself(log, offset):
                return offset
        if readable(log, file.start_offset):
            return file.start_offset
    return log.min_offset


def _names_itself(log: CommitLog, offset: int) -> bool:
    message = readable(log, offset)
    return message is not None and message.physical_offset == offset


def require_message_start(log: CommitLog, offset: int, config: StoreConfig, env: Env) -> None:
    """Raises `UsageError` if a physical offset lies inside a message or behind a file's filler."""
    following = next_message_start(log, offset, config, env)
    if following != offset:
        raise UsageError(f"no message begins at physical offset {offset}", hint=f"the next one begins at {following}")


def next_message_start(log: CommitLog, offset: int, config: StoreConfig, env: Env) -> int:
    """Returns where the next message begins if a physical offset lies inside a message or behind a
    file's filler, else that offset.

    A message that stores this offset as its own decides it; otherwise the file is scanned up to
    there. A place behind damage passes, because nothing shows where messages begin there.
    """
    from logdex.rocketmq.scan.scanner import Scanner

    file = log.file_of(offset)
    if file is None or offset == file.start_offset or _names_itself(log, offset):
        return offset
    position = offset - file.start_offset
    scanner = Scanner(config, check_crc=False, env=env)
    scanning = scanner.scan_file(file, 0, position)
    while True:
        try:
            next(scanning)
        except StopIteration as stop:
            is_damaged = stop.value is not None
            break
    at = scanner.stopped_at
    if is_damaged or at == position:
        return offset
    return file.start_offset + at if at > position else file.end_offset
