"""Zeros in a CommitLog are its end only if nothing lies behind them; else they are a hole, and what follows is lost.

For the engine the log ends at the zeros either way; whoever reports an end must not call a hole a good one. Nor the
end of a log that a broker writes on while it is read a hole: so the zeros are looked at once more, after what is behind
them was seen, since a broker writes from the front to the back.
Source: ``docs/formats/commit-log.md``.
"""

from __future__ import annotations

from dataclasses import replace

from logdex.io.env import ByteArray
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd

LOOK_BEHIND_BYTES = 16 << 20
"""How far behind the zeros their own file is looked at: holes are lost pages or blocks, and looking through all of
a file that was made ahead would cost as much as scanning it. `verify` looks at all."""


def hole_in_file(end: LogEnd, data: ByteArray) -> LogEnd:
    """`end`, told as a hole if it is at zeros and `data`, the bytes of its file (mapped, so as they are now), goes on a
    little behind them."""
    at = end.position
    goes_on = end.kind is EndKind.ZEROS and data[at : at + LOOK_BEHIND_BYTES].any()
    if goes_on and not data[at : at + BLANK.size_bytes].any():
        return _hole(end, "the same file")
    return end


def hole_before_files(log: CommitLog, end: LogEnd) -> LogEnd:
    """`end`, told as a hole if it is at zeros and a later file of the log begins with a message. Reads file heads."""
    if end.kind is not EndKind.ZEROS:
        return end
    here = log.file_of(end.offset)
    for file in log.files:
        if file.start_offset > end.offset and _is_written(log, file, file.start_offset):
            has_grown = here is not None and _is_written(log, here, end.offset)
            return end if has_grown else _hole(end, file.path)
    return end


def _is_written(log: CommitLog, file: CommitLogFile, offset: int) -> bool:
    """Whether there is anything but zeros where a message of `file` would begin."""
    return any(log.read(offset, min(BLANK.size_bytes, file.end_offset - offset)))


def _hole(end: LogEnd, where: str) -> LogEnd:
    return replace(end, kind=EndKind.HOLE, reason=f"zeros where a message must be, {where} goes on behind them")
