"""CommitLog files whose messages say that they lie elsewhere: somebody has changed their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from logdex.errors import UsageError, VanishedError
from logdex.io.env import Env
from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.files.offset_files import OffsetFile
from logdex.rocketmq.settings.store_config import StoreConfig

NO_OFFSET = -1
"""The start offset of a file whose name is none."""


def stated_start(log: CommitLog, file: CommitLogFile) -> int | None:
    """Returns the physical offset at which a file of the log's directory begins according to its
    messages, if that is not the offset in its name; otherwise None. Raises what
    `CommitLog.stated_place` raises."""
    place = log.stated_place(file)
    if place is None or place.start == file.start_offset:
        return None
    return place.start if place.is_sure or _is_likely(log, file, place.start) else None


def _is_likely(log: CommitLog, file: CommitLogFile, start: int) -> bool:
    """Whether a file with a single message lies where it says: the name is no place of a log and
    that is one, or a file beside that place has the right name."""
    size = log.file_size_bytes
    if start % size == 0 and file.start_offset % size:
        return True
    beside = {start - size, start + size}
    for other in log.files:
        if other.start_offset in beside and other != file and other.start_offset not in log.unusable:
            place = log.stated_place(other)
            if place is not None and place.start == other.start_offset:
                return True
    return False


def require_right_names(log: CommitLog, files: Iterable[CommitLogFile]) -> None:
    """Raises `UsageError` for one of these files of the log that has the name of another place than
    its messages: they would be taken for messages of that place, perhaps once more. One file by
    itself may have any name. Raises what `stated_start` raises."""
    for file in () if log.is_one_file else files:
        if file.start_offset in log.unusable:
            continue
        stated = stated_start(log, file)
        if stated is not None:
            raise UsageError(
                f"{file.path} holds the messages of the file {stated:0{FILE_NAME_DIGITS}d}",
                hint="logdex verify says how to mend that, and logdex recover reads them where they belong",
            )


def require_right_names_in(root: str, config: StoreConfig, env: Env) -> None:
    """Raises `UsageError` for a misnamed CommitLog file of a store."""
    with CommitLog.of_config(root, config, env=env) as log:
        require_right_names(log, log.files)


def foreign_files(log: CommitLog, env: Env) -> list[CommitLogFile]:
    """Returns the files beside those of the log whose names are no offsets, or offsets too large
    for a file. Their start offset is `NO_OFFSET`."""
    found = []
    for path in log.foreign_paths:
        try:
            found += [OffsetFile(path, NO_OFFSET, env.size_bytes(path))] if env.is_file(path) else []
        except VanishedError:
            pass  # somebody has tidied up
    return found


def _stated_if_there(log: CommitLog, file: CommitLogFile) -> int | None:
    """Returns what `stated_start` returns, and None for an old file that a broker has removed."""
    try:
        return stated_start(log, file)
    except VanishedError:
        if not log.has_expired(file.start_offset):
            raise
        return None


def with_stated_names(log: CommitLog, env: Env) -> tuple[list[CommitLogFile], dict[str, CommitLogFile]]:
    """Returns the files of the log that can be used, in the order of their offsets, and those that
    have a wrong name, by their paths. Both have the start offset that their messages state, unless
    another file has that name. Among them are files whose names are no offsets."""
    usable = [file for file in log.files if file.start_offset not in log.unusable]
    foreign = [] if log.is_one_file else foreign_files(log, env)
    stated = {file: start for file in [*usable, *foreign] if (start := _stated_if_there(log, file)) is not None}
    taken = {file.start_offset for file in usable if file not in stated}
    moved: dict[str, CommitLogFile] = {}
    for file, start in stated.items():
        if start not in taken:
            taken.add(start)
            moved[file.path] = replace(file, start_offset=start)
    files = [moved.get(file.path, file) for file in [*usable, *foreign]]
    return sorted((file for file in files if file.start_offset >= 0), key=lambda file: file.start_offset), moved
