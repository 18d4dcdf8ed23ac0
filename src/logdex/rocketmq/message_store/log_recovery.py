"""Where the CommitLog of a store ends that is about to be written, and from where on its
ConsumeQueues may lack entries.

Source: ``docs/formats/commit-log.md``; CommitLog.recoverNormally, recoverAbnormally,
isMappedFileMatchedRecover.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from logdex.errors import CorruptError, MissingFileError, UsageError
from logdex.io.env import Env
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import LogEnd
from logdex.rocketmq.files.checkpoint import StoreCheckpoint
from logdex.rocketmq.message.stored_message import StoredMessage
from logdex.rocketmq.message_store.kept_windows import KeptWindows
from logdex.rocketmq.read.parts.behind_damage import position_behind
from logdex.rocketmq.scan.log_extent import find_valid_end
from logdex.rocketmq.scan.log_walk import newest_written, readable
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig

_PAGE_SIZE = 512
"""The smallest unit of which a power cut leaves all or nothing."""
_RECOVER_HINT = "logdex recover saves what can be read into another directory"


def require_whole_files(log: CommitLog) -> None:
    """Raises an error unless all files but the last one have their full size and follow each
    other."""
    for unusable in log.unusable.values():
        raise unusable
    for expected, found in log.gaps():
        raise MissingFileError(
            f"the file {expected:020d} is missing, the log goes on at {found}", path=log.directory, hint=_RECOVER_HINT
        )
    last = log.files[-1]
    if len(log.files) == 1 and last.size_bytes not in (0, log.file_size_bytes):
        raise UsageError(
            f"{last.path} has {last.size_bytes} bytes, but mapped_file_size_commit_log is {log.file_size_bytes}",
            hint="leave it out to have it inferred from the files",
        )
    for file in log.wrong_sizes:
        if file.path != last.path or file.size_bytes > log.file_size_bytes:
            raise CorruptError(
                "the file has the wrong size",
                path=file.path,
                position=file.size_bytes,
                expected=log.file_size_bytes,
                found=file.size_bytes,
                hint=_RECOVER_HINT,
            )


def scan_start(log: CommitLog, checkpoint: StoreCheckpoint) -> int:
    """The start of the newest file before which all ConsumeQueue entries are on disk: both the
    checkpoint's offset and its times vouch for what is before it. Without such a file, the start of
    the log."""
    for file in reversed(log.files):
        first = readable(log, file.start_offset)
        if first is not None and _is_vouched_for(first, file.start_offset, checkpoint):
            return file.start_offset
    return log.min_offset


def _is_vouched_for(first: StoredMessage, offset: int, checkpoint: StoreCheckpoint) -> bool:
    known = checkpoint.logics_physical_offset
    return first.store_timestamp_ms <= checkpoint.min_timestamp_ms and (known == 0 or offset <= known)


def clean_end(log: CommitLog, known: Iterable[int], config: StoreConfig, env: Env) -> tuple[LogEnd, int]:
    """(the end of a log that was closed cleanly, the store time of its last message or 0), found
    from the newest of the `known` messages."""
    extent = find_valid_end(log, known, config, look_behind=False, env=env)
    return extent.end, extent.last_store_timestamp_ms or 0


def unclean_end(
    log: CommitLog, kept: KeptWindows, root: str, checkpoint: StoreCheckpoint, config: StoreConfig, env: Env
) -> tuple[LogEnd | None, int, int]:
    """(the end of a log after an unclean end, the offset there, the store time of its last message
    or 0), by a scan from `kept.start` on, whose first windows are kept.

    The log ends at the first message that is not whole. The CRC covers the body alone, so a message
    whose topic or properties are zeros from a page's start on is not whole either: the end is None
    then. Raises `CorruptError` if messages follow in a later file, or one in the same file that the
    checkpoint knows to be on disk: no power cut leaves that.
    """
    scanner, last_ms = Scanner(config, env=env, nobody_writes=True, table=kept.table), 0
    end: LogEnd | None = None
    offset = kept.start
    windows = scanner.scan(log, kept.start)
    while True:
        try:
            window = next(windows)
        except StopIteration as stop:
            end, offset = stop.value, stop.value.offset
            break
        torn = _first_torn(window)
        whole = window.count if torn is None else torn
        kept.add(window, whole)
        if whole:
            last_ms = int(window.columns.store_timestamp_ms[whole - 1])
        if torn is not None:
            offset = int(window.columns.position[torn])
            windows.close()
            break
    newest, file = newest_written(log), log.file_at_or_before(offset)
    if newest.start_offset > offset:
        raise _damaged(file, offset, f"in {newest.path}")
    if end is not None and not end.is_clean and end.path == file.path:
        position = position_behind(file, end, root, config, env)
        if position is not None and _was_flushed(log, file.start_offset + position, checkpoint):
            raise _damaged(file, offset, f"at byte {position}")
    return end, offset, last_ms


def _was_flushed(log: CommitLog, offset: int, checkpoint: StoreCheckpoint) -> bool:
    """Whether the message at an offset was on disk: by the checkpoint's offset, which
    `MessageStore` keeps, or by its time, which a clock that goes back makes less sure."""
    if checkpoint.logics_physical_offset:
        return offset < checkpoint.logics_physical_offset
    message = readable(log, offset)
    return message is not None and message.store_timestamp_ms < checkpoint.physic_msg_timestamp_ms


def _damaged(file: CommitLogFile, offset: int, where: str) -> CorruptError:
    text = f"the log is damaged here, and goes on {where}"
    return CorruptError(text, path=file.path, position=offset - file.start_offset, hint=_RECOVER_HINT)


def require_no_damage(log: CommitLog, start: int, end_offset: int, config: StoreConfig, env: Env) -> None:
    """Raises `CorruptError` unless a scan from `start` comes to the log's end. What is derived by a
    scan would lack the messages behind the damage, and nothing would tell."""
    if start >= end_offset:
        return
    scanner = Scanner(config, env=env, nobody_writes=True)
    for _ in scanner.scan(log, start):
        pass
    end = scanner.end
    assert end is not None  # the scan ran to its end
    if end.offset < end_offset:
        raise _damaged(log.file_at_or_before(end.offset), end.offset, "behind it") from end.error


def _first_torn(window: Window) -> int | None:
    """The first message of a window that lies at another offset than it states, or whose topic and
    properties are zeros from a page's start to its end or to the page's end."""
    columns, count = window.columns, window.count
    position, size = columns.position[:count], columns.size[:count].astype(np.int64)
    start = window.file.start_offset
    rest = position + columns.body_at[:count] + columns.body_length[:count]
    boundary = start - (start - rest) // _PAGE_SIZE * _PAGE_SIZE  # pages are those of the file
    end = position + size
    shift = window.data_offset
    crossing = np.flatnonzero(boundary < end)
    begins_zero = window.data[boundary[crossing] - shift] == 0
    suspects = crossing[begins_zero | (end[crossing] - boundary[crossing] > _PAGE_SIZE)]
    elsewhere = np.flatnonzero(columns.stored_offset[:count] != position)
    for place in np.sort(np.concatenate([suspects, elsewhere])).tolist():
        if columns.stored_offset[place] != position[place]:
            return int(place)
        for begin in range(int(boundary[place]), int(end[place]), _PAGE_SIZE):
            if not window.data[begin - shift : min(begin + _PAGE_SIZE, int(end[place])) - shift].any():
                return int(place)
    return None


def remove_later_files(log: CommitLog, end_offset: int, env: Env) -> None:
    """Removes the files behind the one in which the log ends, which are empty, and makes the files
    before it durable."""
    for file in [each for each in log.files if each.end_offset <= end_offset][-1:]:
        with env.open_write(file.path) as opened:
            opened.sync()  # a process that was killed may have ended this file, and not synced it
    for file in reversed(log.files):
        if file.start_offset > end_offset:
            env.remove(file.path)
            env.sync_dir(log.directory)  # otherwise a power cut could leave the second file without the first
    log.refresh()
