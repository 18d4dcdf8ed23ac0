"""Explains why a kernel stopped: the end of the log that is there."""

from __future__ import annotations

from logdex.errors import CorruptError
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.partly_loaded import load
from logdex.kernels.rocketmq import message_scan as kernel
from logdex.layout.rocketmq import MESSAGE_FIXED_SIZE_BYTES_MIN
from logdex.rocketmq.commit_log.commit_log import CommitLogFile
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd, end_at_zeros
from logdex.rocketmq.message.stored_message import decode_message
from logdex.rocketmq.scan.log_bytes import LogBytes


def log_end_at(file: CommitLogFile, data: ByteArray, position: int, reason: int) -> LogEnd:
    """Returns the end of a log at a position of a file with the bytes `data`, where a kernel
    stopped with `reason`."""
    if reason == kernel.ZEROS:
        return end_at_zeros(file, position, data)
    load(data, position)
    if reason == kernel.BAD_DELAY:
        error = CorruptError(
            "the DELAY property is no number: the engine stops here", path=file.path, position=position, field="DELAY"
        )
    else:
        try:
            decode_message(memoryview(data), position, path=file.path)  # type: ignore[arg-type]
        except CorruptError as located:
            error = located.with_traceback(None)  # it would keep this frame, and the scan, until Python collects cycles
        else:
            error = CorruptError("the message changed while it was read", path=file.path, position=position)
    kind = EndKind.TORN if reason == kernel.TORN or _is_torn(data, position) else EndKind.CORRUPT
    return LogEnd(kind, file.start_offset + position, file.path, position, error.message, error)


def _is_torn(data: ByteArray, position: int) -> bool:
    """Whether the message at `position` was only partly written: it ends in zeros, and only zeros
    follow.

    A whole message ends with its last property, or with a properties length of 0 after a topic;
    then two bytes are zero.
    """
    if position + 4 > data.size:
        return False
    size = int.from_bytes(data[position : position + 4].tobytes(), "big")
    end = position + size
    if not MESSAGE_FIXED_SIZE_BYTES_MIN <= size <= data.size - position:
        return False
    return LogBytes(data, 0).first_nonzero(end - 3) is None
