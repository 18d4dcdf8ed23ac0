"""CommitLog files whose messages say that they lie elsewhere: somebody has changed their names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from logdex.errors import CorruptError, MissingFileError, UnreadableError, UsageError
from logdex.io.env import Env
from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.files.offset_files import OFFSET_MAX
from logdex.rocketmq.settings.store_config import StoreConfig


def stated_start(log: CommitLog, file: CommitLogFile, *, unreadable_is_damage: bool = True) -> int | None:
    """Returns the physical offset at which a file of the log begins according to its messages, if
    that is not the offset in its name; otherwise None. The first two messages must agree, because
    one of them may be damaged. Raises `StorageError` if the system refuses to read the file,
    without `unreadable_is_damage` also `UnreadableError` for bytes that the disk cannot read."""
    first = file.start_offset
    try:
        message = log.read_message(first)
        stated = message.physical_offset
        if stated == first or not 0 <= stated <= OFFSET_MAX - file.size_bytes:
            return None
        second = log.read_message(first + message.size_bytes)
    except (CorruptError, MissingFileError):
        return None
    except UnreadableError:
        if unreadable_is_damage:
            return None
        raise
    return stated if second.physical_offset == stated + message.size_bytes else None


def require_right_names(log: CommitLog, files: Iterable[CommitLogFile], *, unreadable_is_damage: bool = True) -> None:
    """Raises `UsageError` for one of these files of the log that has the name of another place than
    its messages: they would be taken for messages of that place, perhaps once more. One file by
    itself may have any name. Raises what `stated_start` raises."""
    for file in () if log.is_one_file else files:
        if file.start_offset in log.unusable:
            continue
        stated = stated_start(log, file, unreadable_is_damage=unreadable_is_damage)
        if stated is not None:
            raise UsageError(
                f"{file.path} holds the messages of the file {stated:0{FILE_NAME_DIGITS}d}",
                hint="logdex verify says how to mend that, and logdex recover reads them where they belong",
            )


def require_right_names_in(root: str, config: StoreConfig, env: Env) -> None:
    """Raises `UsageError` for a misnamed CommitLog file of a store, and `StorageError` for bytes
    that cannot be read."""
    with CommitLog.of_config(root, config, env=env) as log:
        require_right_names(log, log.files, unreadable_is_damage=False)


def with_stated_names(log: CommitLog) -> tuple[list[CommitLogFile], dict[str, CommitLogFile]]:
    """Returns the files of the log that can be used, in the order of their offsets, and those that
    have a wrong name, by their paths. Both have the start offset that their messages state, unless
    another file has that name."""
    usable = [file for file in log.files if file.start_offset not in log.unusable]
    stated = {file: start for file in usable if (start := stated_start(log, file)) is not None}
    taken = {file.start_offset for file in usable if file not in stated}
    moved: dict[str, CommitLogFile] = {}
    for file, start in stated.items():
        if start not in taken:
            taken.add(start)
            moved[file.path] = replace(file, start_offset=start)
    files = (moved.get(file.path, file) for file in usable)
    return sorted(files, key=lambda file: file.start_offset), moved
