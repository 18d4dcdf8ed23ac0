"""Finds what `recover` reads: the files of the log in the order of their offsets, and those that
are missing between them; and the outputs that it allows."""

from __future__ import annotations

import posixpath
from collections import Counter
from itertools import groupby

from logdex.errors import UsageError
from logdex.io.env import Env
from logdex.jobs import output as outputs
from logdex.layout.rocketmq import FILE_NAME_DIGITS
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.misnamed import with_stated_names
from logdex.rocketmq.files.store_files import CHECKPOINT_FILE, COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR, StorePaths
from logdex.rocketmq.rebuild.source import require_whole_log
from logdex.rocketmq.recover.whole_pieces import ScannedFile
from logdex.rocketmq.settings.store_config import StoreConfig

MISSING_FILES_MAX = 1_000
"""Up to this many missing files in a row are filled with placeholders. A file behind more of them
has a wrong name."""

_OWN_NAMES = {"abort", "abort.bak", "lock", CHECKPOINT_FILE, "config"}
_DERIVED = {COMMIT_LOG_DIR, CONSUME_QUEUE_DIR, INDEX_DIR}


def check_output(root: str, output: str, config: StoreConfig, *, in_place: bool, env: Env) -> None:
    """Raises `UsageError` if what is at `root`, a store or one CommitLog file, must not be
    recovered to `output`, which must be new or empty unless `in_place`."""
    is_file = env.is_file(root)
    if in_place and is_file:
        raise UsageError(f"--in-place needs a store, and {root} is one file", hint="give --output DIR")
    if in_place and config.store_path_commit_log is not None:
        raise UsageError(
            f"--in-place writes commitlog/ in {root}, and the log lies in {config.store_path_commit_log}",
            hint="give --output DIR",
        )
    real = env.real_path(root)
    folder = posixpath.dirname(real)
    lies_in_store = is_file and posixpath.basename(folder) == COMMIT_LOG_DIR
    store = posixpath.dirname(folder) if lies_in_store else real
    outputs.check_output(output, store, in_place=in_place, may_be_in_place=not is_file, env=env)
    if not in_place:
        require_whole_log(root, env)
        outputs.require_empty(output, env=env)


def files_of(log: CommitLog, notes: list[str], env: Env) -> tuple[list[ScannedFile], list[CommitLogFile]]:
    """Returns the files of the new log, each with its source or none where the log lacks it, and
    the files that cannot be of this log by their names. Names that are no offsets are noted, and
    those that differ from where the file's messages lie."""
    size = log.file_size_bytes
    usable, renamed = with_stated_names(log, env)
    notes += [f"{path} is no file of the log: not taken over" for path in log.foreign_paths if path not in renamed]
    notes += [
        f"{path} is read as the file of offset {file.start_offset}: its messages lie there"
        for path, file in renamed.items()
    ]
    places = Counter(file.start_offset % size for file in usable)
    place = max(places, key=lambda each: (places[each], -each))
    fitting = [file for file in usable if file.start_offset % size == place]
    taken = _largest_group(fitting, size)
    files: list[ScannedFile] = []
    for file in taken:
        while files and files[-1].start_offset + size < file.start_offset:
            start = files[-1].start_offset + size
            files.append(_missing_file(log, start))
        files.append(ScannedFile(file.path, file.start_offset, file))
    return files, [file for file in usable if file not in taken]


def _missing_file(log: CommitLog, start: int) -> ScannedFile:
    if (error := log.unusable.get(start)) is not None:
        return ScannedFile(error.path, start, why_missing=error.reason)
    return ScannedFile(f"{log.directory}/{start:0{FILE_NAME_DIGITS}d}", start)


def _largest_group(files: list[CommitLogFile], size: int) -> list[CommitLogFile]:
    """Returns the files without those that more than `MISSING_FILES_MAX` missing files part from
    most others."""
    numbered = list(enumerate(files))
    jumps = [0] * len(files)
    for number, file in numbered[1:]:
        is_far = file.start_offset - files[number - 1].start_offset > (MISSING_FILES_MAX + 1) * size
        jumps[number] = jumps[number - 1] + is_far
    groups = [[file for _, file in group] for _, group in groupby(numbered, key=lambda pair: jumps[pair[0]])]
    return max(groups, key=len)


def other_names(root: str, env: Env) -> list[str]:
    """Returns the names in a store that are not taken over to an output elsewhere, but for empty
    folders."""
    paths = StorePaths(root)
    others = [name for name in env.list_dir(paths.root) if name not in _OWN_NAMES | _DERIVED]
    return [name for name in others if not name.startswith(".logdex-") and not _is_empty(f"{root}/{name}", env)]


def _is_empty(path: str, env: Env) -> bool:
    return env.is_dir(path) and not env.list_dir(path)
