"""Where a CommitLog ends and why: one definition for the scan, the parts of a rebuild, `info`,
queries and `verify`.

A log is read file by file. In each file reading either stops for a reason (`LogEnd`), or it reaches
the filler or the file's last byte; then `next_file_or_end` decides whether the log ends there or
continues in the next file.

Zeros are the end of a log only if nothing follows them. Otherwise they are a hole, and the data
after it is lost. For the engine the log ends at the zeros in both cases, but a report must not call
a hole a clean end, and must not call the end of a log that a broker is writing a hole. A broker
writes from the front to the back, so the zeros are read once more after data was found behind them.
Source: ``docs/formats/commit-log.md``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import numpy as np

from logdex.errors import CorruptError, TruncatedError, UnreadableError, UnusableFileError, VanishedError
from logdex.io.env import ReadFile
from logdex.io.mapped.byte_array import ByteArray
from logdex.io.mapped.partly_loaded import load
from logdex.layout.rocketmq import BLANK
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile

LOOK_BEHIND_BYTES = 16 << 20
"""How far a file is searched for data after the zeros. A hole is a lost page or block, and
searching all of a preallocated file would take as long as scanning it. `verify` searches all of it.
"""
_LOOK_BLOCK_BYTES = 1 << 20
UNREADABLE = "unreadable"
"""The field that the error of an end names where bytes cannot be read."""


class EndKind(enum.Enum):
    """Why a log ends where it does."""

    END_OF_FILES = "end of files"
    ZEROS = "zeros"
    HOLE = "hole"
    TORN = "torn"
    CORRUPT = "corrupt"
    MISSING_FILE = "missing file"
    CUT = "cut"
    """What was read is no longer all in the log: a broker has cut it meanwhile."""

    @property
    def is_clean(self) -> bool:
        """Whether only unwritten bytes follow, as far as the end itself shows."""
        return self in (EndKind.END_OF_FILES, EndKind.ZEROS)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the valid log ends: `offset` is the physical offset, `path` and `position` are the file
    and the byte in it. `last_message` is the physical offset of the message before it, None where
    none was read to find the end."""

    kind: EndKind
    offset: int
    path: str
    position: int
    reason: str
    error: CorruptError | None = field(default=None, compare=False)
    last_message: int | None = field(default=None, compare=False)

    @property
    def is_clean(self) -> bool:
        """Whether only unwritten bytes follow, as far as the end itself shows."""
        return self.kind.is_clean

    @property
    def is_zeros(self) -> bool:
        """Whether the end is at zeros where the next message should be."""
        return self.kind in (EndKind.ZEROS, EndKind.HOLE)

    @property
    def is_unreadable(self) -> bool:
        """Whether the disk cannot read what follows, or the file was truncated meanwhile."""
        return self.error is not None and self.error.field == UNREADABLE

    @property
    def description(self) -> str:
        """Where and why the log ends, as a sentence with the file and the position in it."""
        where = self.reason if self.error is not None else f"{self.path}: byte {self.position}: {self.reason}"
        return f"the log ends at offset {self.offset} ({self.kind.value}): {where}"


@dataclass(frozen=True, slots=True)
class LeftOutRange:
    """Physical offsets [`start`, `end`) of a log where no message can be read, and `why`, with the
    file and the byte in it."""

    start: int
    end: int
    why: str

    @staticmethod
    def of(stop: LogEnd, end_offset: int) -> LeftOutRange:
        """Returns the range from where reading stopped up to `end_offset`."""
        assert stop.error is not None  # bytes that cannot be read always have one
        return LeftOutRange(stop.offset, end_offset, stop.error.message)

    @property
    def description(self) -> str:
        """What is left out and why, as a sentence."""
        return f"offsets {self.start} to {self.end} are left out: {self.why}"


def zeros_at(file: CommitLogFile, position: int) -> LogEnd:
    """Returns the end at 8 zero bytes at `position` of a file, without looking at what follows
    them."""
    offset = file.start_offset + position
    return LogEnd(EndKind.ZEROS, offset, file.path, position, "nothing was written from here on")


def unreadable_end(file: CommitLogFile, position: int, error: UnreadableError) -> LogEnd:
    """Returns the end at `position` of a file, behind which `error` lies."""
    wanted = "a message that can be read"
    bad = CorruptError(error.reason, path=file.path, position=position, field=UNREADABLE, expected=wanted, found="none")
    return LogEnd(EndKind.CORRUPT, file.start_offset + position, file.path, position, bad.message, bad)


def end_at_zeros(file: CommitLogFile, position: int, data: ByteArray) -> LogEnd:
    """Returns the end at 8 zero bytes at `position` of a file. It is a hole if `data`, the file's
    mapped (so current) bytes, has data not far behind them."""
    end = zeros_at(file, position)
    load(data, position, position + LOOK_BEHIND_BYTES)
    goes_on = data[position : position + LOOK_BEHIND_BYTES].any()
    if goes_on and not data[position : position + BLANK.size_bytes].any():
        return _hole(end, "the same file")
    return end


def end_at_zeros_of(file: CommitLogFile, position: int, opened: ReadFile) -> LogEnd:
    """Returns what `end_at_zeros` returns, with reads instead of a mapping of the whole file."""
    end = zeros_at(file, position)
    for at in range(position, position + LOOK_BEHIND_BYTES, _LOOK_BLOCK_BYTES):
        block = opened.read_at(at, min(_LOOK_BLOCK_BYTES, position + LOOK_BEHIND_BYTES - at))
        if np.frombuffer(block, np.uint8).any():
            still_zeros = not any(opened.read_at(position, BLANK.size_bytes))
            return _hole(end, "the same file") if still_zeros else end
        if len(block) < _LOOK_BLOCK_BYTES:
            break
    return end


def next_file_or_end(
    log: CommitLog, file: CommitLogFile, position: int, stop: LogEnd | None, *, unreadable_is_damage: bool = False
) -> CommitLogFile | LogEnd:
    """Returns the file in which the log continues after `file`, or the end of the log.

    The file was read up to `position`. `stop` is the end that was found there; None if the filler
    or the file's last byte is there. Reads at most the first bytes of later files. Where those
    cannot be read behind zeros, the log ends there with `unreadable_is_damage`; else
    `UnreadableError` is raised, because nobody knows then whether the zeros are its end.
    """
    if stop is not None:
        return _hole_before_files(log, stop, unreadable_is_damage)
    if (error := log.unusable.get(file.start_offset)) is not None:
        return unreadable_end(file, 0, error)
    following = log.file_behind(file)
    cut = _end_of_cut_file(log, file, position, is_last=following is None)
    if cut is not None:
        return cut
    behind = file.start_offset + log.file_size_bytes
    if following is None:
        reason = "the last file is full" if file.size_bytes else "the last file is empty"
        offset = behind if file.size_bytes else file.start_offset
        return LogEnd(EndKind.END_OF_FILES, offset, file.path, file.size_bytes, reason)
    if following.start_offset == behind and behind in log.unusable:
        return unreadable_end(following, 0, log.unusable[behind])
    if following.start_offset != behind:
        reason = f"the file {behind:020d} is missing, the log goes on behind it"
        return LogEnd(EndKind.MISSING_FILE, behind, file.path, file.size_bytes, reason)
    return following


def rest_to_leave_out(log: CommitLog, file: CommitLogFile, stop: LogEnd | None) -> LeftOutRange | None:
    """Returns the rest of `file`, which a reader that goes on behind unreadable bytes leaves out,
    because no message follows behind `stop` there. Returns None if it does not go on in the next
    file: `file` is the last one, was truncated meanwhile, or cannot be used at all."""
    if stop is None or not stop.is_unreadable or log.file_behind(file) is None:
        return None
    try:
        log.read(file.end_offset - 1, 1)
    except (TruncatedError, UnusableFileError, VanishedError):
        return None
    except UnreadableError:
        pass
    return LeftOutRange.of(stop, file.end_offset)


def _end_of_cut_file(log: CommitLog, file: CommitLogFile, position: int, *, is_last: bool) -> LogEnd | None:
    """Returns the end of a log at a file that was truncated between two messages: the file was read
    up to its last byte and has no filler, with which a broker ends each file.

    Returns None if nothing can be lost: the file has its full size and is not the last one, or it
    is the last one and still empty.
    """
    is_whole = not file.size_bytes if is_last else file.size_bytes >= log.file_size_bytes
    if is_whole or position < file.size_bytes:
        return None
    short = f"at {position} of {log.file_size_bytes} bytes" if position < log.file_size_bytes else "without a filler"
    return LogEnd(EndKind.TORN, file.start_offset + position, file.path, position, f"the file ends here, {short}")


def _hole_before_files(log: CommitLog, end: LogEnd, unreadable_is_damage: bool) -> LogEnd:
    """Returns `end`, as a hole if it is at zeros and a later file of the log begins with a
    message. If none does, but the disk cannot read where one of them begins, the log ends there, or
    the error is raised."""
    if end.kind is not EndKind.ZEROS:
        return end
    here, unreadable = log.file_of(end.offset), None
    for file in (file for file in log.files if file.start_offset > end.offset):
        try:
            is_written = _is_written(log, file, file.start_offset, if_removed=False)
            if is_written:
                log.close()  # a broker that cut its log has removed the file, and it was still open
                is_written = _is_written(log, file, file.start_offset, if_removed=False)
        except UnreadableError as error:
            if not unreadable_is_damage:
                raise
            unreadable = unreadable or unreadable_end(file, 0, error)
            continue
        if is_written:
            has_grown = here is not None and _is_written(log, here, end.offset, if_removed=True)
            return end if has_grown else _hole(end, file.path)
    return unreadable or end


def _is_written(log: CommitLog, file: CommitLogFile, offset: int, *, if_removed: bool) -> bool:
    """Whether there is anything but zeros where a message of `file` would begin; `if_removed` if a
    broker has removed the file meanwhile."""
    try:
        return any(log.read(offset, min(BLANK.size_bytes, file.end_offset - offset)))
    except VanishedError:
        if not log.was_trimmed(offset):
            raise
        return if_removed


def _hole(end: LogEnd, where: str) -> LogEnd:
    return replace(end, kind=EndKind.HOLE, reason=f"zeros where a message must be, {where} goes on behind them")
