"""Parts that a CommitLog lacks in its middle, as the names and the sizes of its files show."""

from __future__ import annotations

from collections.abc import Iterator

from logdex.errors import CorruptError
from logdex.rocketmq.commit_log.commit_log import CommitLog


def missing_parts(log: CommitLog) -> Iterator[tuple[int, int, CorruptError]]:
    """Yields each part as [begin, end) in physical offsets, and the damage that it is: a file is
    missing, or ends early, and the log goes on behind it."""
    for expected, found in log.gaps():
        path = f"{log.directory}/{expected:020d}"
        error = CorruptError("the file is missing, the log goes on behind it", path=path, position=0)
        error.end_position = found - expected
        yield expected, found, error
    for file in log.files[:-1]:
        if file.size_bytes < log.file_size_bytes:
            reason = f"the file ends here, at {file.size_bytes} of {log.file_size_bytes} bytes"
            if (unusable := log.unusable.get(file.start_offset)) is not None:
                reason = unusable.reason
            error = CorruptError(reason, path=file.path, position=file.size_bytes)
            error.end_position = log.file_size_bytes
            yield file.end_offset, file.start_offset + log.file_size_bytes, error


def missing_part_at(log: CommitLog, offset: int) -> tuple[int, CorruptError] | None:
    """Returns where the part ends in which a physical offset lies, and its damage; None if a file
    holds the offset. A file that a broker has removed from the log's start is no damage."""
    if log.file_of(offset) is not None or log.was_trimmed(offset):
        return None
    return next(((end, error) for begin, end, error in missing_parts(log) if begin <= offset < end), None)
