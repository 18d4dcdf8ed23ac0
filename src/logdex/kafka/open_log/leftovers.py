"""What a crash leaves beside the segments: ``.deleted``, ``.cleaned``, ``.swap`` and ``.tmp`` files, before a load.

Source: Kafka's LogLoader.removeTempFilesAndCollectSwapFiles, load (passes one to three). A ``.cleaned`` file is half
written and goes. A ``.swap`` file is whole: it takes the place of the segments whose offsets it covers, unless a
``.cleaned`` one at or below it shows that the split that made both was not done.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping

from logdex.io.env import Env
from logdex.kafka.file_records import FileRecords
from logdex.kafka.open_log.report import LoadReport, LoadStep
from logdex.kafka.segment_files import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX, parse_offset_file

_SNAPSHOT_DELETED = ".checkpoint" + DELETED_SUFFIX
"""A quorum's snapshot on its way out: its own log sees to it."""
_TEMPORARY = ".tmp"


def clear_leftovers(path: str, report: LoadReport, *, env: Env) -> None:
    """Removes and renames in the directory `path`; the names are synced when anything was done."""
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
            remove(name, "an unfinished file")
    for name in swaps:
        if (_offset_of(name) or 0) >= first_cleaned:
            remove(name, "of a split that was not finished")
    for name in cleaned:
        remove(name, "of a cleaning or split that was not finished")
    swaps = [name for name in swaps if env.exists(posixpath.join(path, name))]
    if swaps:
        env.sync_dir(path)
        _complete_swaps(path, swaps, remove, report, env)
    env.sync_dir(path)


def _complete_swaps(
    path: str, swaps: list[str], remove: Callable[[str, str], None], report: LoadReport, env: Env
) -> None:
    logs = {name: _offset_of(name) or 0 for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)}
    covered = covered_offsets(
        {base: _next_offset(posixpath.join(path, name), base, env) for name, base in logs.items()}
    )
    for name in env.list_dir(path):
        if _offset_of(name) in covered and not name.endswith(SWAP_SUFFIX):
            remove(name, "replaced by the .swap files of a cleaning or split")
    env.sync_dir(path)
    others = [name for name in swaps if name not in logs]
    for names in ([*logs], others):  # see `swap`: without a .log.swap, nothing is removed any more
        for name in names:
            old = posixpath.join(path, name)
            env.rename(old, old.removesuffix(SWAP_SUFFIX))
            report.note(LoadStep.RENAMED, old, "a cleaning or split was finished")
        env.sync_dir(path)


def first_cleaned_offset(names: Iterable[str]) -> int:
    """Of the ``.cleaned`` files among a directory's `names`, the first one's: from there on no ``.swap`` counts."""
    cleaned = (_offset_of(name) for name in names if name.endswith(CLEANED_SUFFIX))
    return min((offset for offset in cleaned if offset is not None), default=1 << 63)


def covered_offsets(next_offsets: Mapping[int, int]) -> range:
    """Segments that begin here are replaced by ``.log.swap`` files, whose next offsets are given by base offset."""
    if not next_offsets:
        return range(0)
    return range(min(next_offsets), max(*next_offsets.values(), max(next_offsets) + 1))  # an empty one has a name too


def _next_offset(log_path: str, base_offset: int, env: Env) -> int:
    with FileRecords(log_path, env=env) as records:
        last = records.last_header()
    return base_offset if last is None else last.last_offset + 1


def _offset_of(name: str) -> int | None:
    """The offset that a file's name begins with, whatever follows."""
    head, _, tail = name.partition(".")
    found = parse_offset_file(f"{head}{LOG_SUFFIX}") if tail else None
    return None if found is None else found[0]
