"""Clears what a crash leaves beside the segments: ``.deleted``, ``.cleaned``, ``.swap`` and
``.tmp`` files.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles, load (passes one to three). A
``.cleaned`` file is incomplete and is removed. A ``.swap`` file is complete: it replaces the
segments whose offsets it covers, unless a ``.cleaned`` file at or below it shows that the split
that made both was interrupted.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from logdex.io.env import Env
from logdex.kafka.directory.leftovers import covered_offsets, first_cleaned_offset, offset_of_name
from logdex.kafka.files.file_names import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from logdex.kafka.log.load_report import LoadReport, LoadStep
from logdex.kafka.segment.file_records import FileRecords

_SNAPSHOT_DELETED = ".checkpoint" + DELETED_SUFFIX
"""A snapshot of the quorum that is being deleted, which the quorum's own log handles."""
_TEMPORARY = ".tmp"


def clear_leftovers(path: str, report: LoadReport, *, env: Env) -> None:
    """Removes and renames files in the directory `path`, and syncs it."""
    names = [name for name in env.list_dir(path) if env.is_file(posixpath.join(path, name))]
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    first_cleaned = first_cleaned_offset(names)

    def remove(name: str, reason: str) -> None:
        where = posixpath.join(path, name)
        lost = env.size_bytes(where) if name.endswith(LOG_SUFFIX) else 0
        env.remove(where)
        report.note(LoadStep.REMOVED, where, reason, size_bytes=lost)

    for name in names:
        if name.endswith(DELETED_SUFFIX) and not name.endswith(_SNAPSHOT_DELETED):
            remove(name, "was marked for deletion")
        elif name.endswith(_TEMPORARY):
            remove(name, "is unfinished")
    for name in swaps:
        if (offset_of_name(name) or 0) >= first_cleaned:
            remove(name, "belongs to a split that was not finished")
    for name in cleaned:
        remove(name, "belongs to a compaction or split that was not finished")
    swaps = [name for name in swaps if env.exists(posixpath.join(path, name))]
    if swaps:
        env.sync_dir(path)
        _complete_swaps(path, swaps, remove, report, env)
    env.sync_dir(path)


def _complete_swaps(
    path: str, swaps: list[str], remove: Callable[[str, str], None], report: LoadReport, env: Env
) -> None:
    logs = {name: offset_of_name(name) or 0 for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)}
    covered = covered_offsets(
        {base: _next_offset(posixpath.join(path, name), base, env) for name, base in logs.items()}
    )
    for name in env.list_dir(path):
        if offset_of_name(name) in covered and not name.endswith(SWAP_SUFFIX):
            remove(name, "was replaced by the .swap files of a compaction or split")
    env.sync_dir(path)
    others = [name for name in swaps if name not in logs]
    for names in ([*logs], others):  # See `swap`: once no .log.swap is left, nothing else may be removed.
        for name in names:
            old = posixpath.join(path, name)
            env.rename(old, old.removesuffix(SWAP_SUFFIX))
            report.note(LoadStep.RENAMED, old, "a compaction or split was completed")
        env.sync_dir(path)


def _next_offset(log_path: str, base_offset: int, env: Env) -> int:
    with FileRecords(log_path, env=env) as records:
        last = records.last_header()
    return base_offset if last is None else last.last_offset + 1
