"""The filler, a blank message, at the end of a CommitLog file."""

from __future__ import annotations

from logdex.errors import UnreadableError
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLogFile


def blank_of(file: CommitLogFile, position: int, head: bytes) -> tuple[int, int]:
    """Returns the size and the magic of a filler with the bytes `head`. Raises `UnreadableError` if
    the file was truncated meanwhile and has fewer."""
    if len(head) < BLANK.size_bytes:
        size = position + len(head)
        end = position + BLANK.size_bytes
        raise UnreadableError(path=file.path, position=size, end_position=end, size_bytes=size)
    size, magic = BLANK.struct.unpack(head)
    return size, magic
