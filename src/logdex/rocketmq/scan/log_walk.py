"""Going through a CommitLog from a known place: message after message by small reads, and where the valid log ends.

For the few messages behind a known place this reads their bytes alone; for many, use `logdex.rocketmq.scan.scanner`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from logdex.errors import CorruptError, MissingFileError
from logdex.io.env import Env
from logdex.layout.rocketmq import BLANK, BLANK_MAGIC
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.settings.store_config import StoreConfig

STEPS_MAX = 64
"""Messages that are read one by one before the scan kernel takes over."""


def walk(log: CommitLog, offset: int) -> Generator[tuple[int, StoredMessage], None, int]:
    """(physical offset, message) from `offset` (a message's, a filler's or the end's) on; returns where the log ends:
    at the first message that is not whole, or behind the last file."""
    while True:
        try:
            message = log.read_message(offset)
        except CorruptError:
            behind = _behind_filler(log, offset)
            if behind is None:
                return offset
            offset = behind
            continue
        except MissingFileError:
            return offset
        yield offset, message
        offset += message.size_bytes


def _behind_filler(log: CommitLog, offset: int) -> int | None:
    """Where the next file begins, if a blank filler stands at `offset`."""
    file = log.file_of(offset)
    if file is None or offset + BLANK.size_bytes > file.end_offset:
        return None
    _, magic = BLANK.struct.unpack(log.read(offset, BLANK.size_bytes))
    return file.start_offset + log.file_size_bytes if magic == BLANK_MAGIC else None


def readable(log: CommitLog, offset: int) -> StoredMessage | None:
    """The whole message at a physical offset, None where there is none."""
    try:
        return log.read_message(offset)
    except (CorruptError, MissingFileError):
        return None


def find_valid_end(log: CommitLog, config: StoreConfig, known: Iterable[int], env: Env) -> int:
    """The physical offset behind the last whole message. Starts at the newest of the `known` offsets that is a
    message's, else at the start of the newest file that holds one, and goes on from there; does not look at what is
    before."""
    start = newest_start(log, known)
    steps = walk(log, start)
    for _ in range(STEPS_MAX):
        try:
            offset, message = next(steps)
        except StopIteration as stop:
            return int(stop.value)
        start = offset + message.size_bytes
    from logdex.rocketmq.scan.scanner import Scanner

    scanner = Scanner(config, env=env)
    for _ in scanner.scan(log, start):
        pass
    return start if scanner.end is None else scanner.end.offset


def newest_start(log: CommitLog, known: Iterable[int]) -> int:
    """The newest of the `known` offsets that is a message's, else the start of the newest file that holds one."""
    newest_first = sorted(known, reverse=True)
    for file in reversed(log.files):
        if not any(log.read(file.start_offset, min(BLANK.size_bytes, file.size_bytes))):
            continue  # made ahead, nothing in it
        for offset in newest_first:
            if file.start_offset <= offset < file.end_offset and readable(log, offset):
                return offset
        if readable(log, file.start_offset):
            return file.start_offset
    return log.min_offset
