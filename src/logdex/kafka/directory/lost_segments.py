"""The segments of a partition that are lost, by what else tells of them.

The .log is not there, or is empty, and the entries of its indexes tell that it had batches.

A broker that deletes a segment renames its .log first, and then its indexes. So indexes alone are
no loss if the .log has the name that a deletion gives it, or if they come before all logs.

The checkpoints tell of the last segments. A broker checkpoints only offsets that its log has: the
recovery point when it has flushed what is below, and the high watermark. After a clean shutdown the
log ends behind both. After a crash it may end before them: a follower cuts its log to its leader's,
and the checkpoints follow a moment later.

Source: Kafka's LogSegment.changeFileSuffixes, LocalLog.deleteSegmentFiles.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from logdex import limits
from logdex.errors import LostSegmentError, StoreError, VanishedError
from logdex.io.env import Env
from logdex.jobs.look_again import pause
from logdex.kafka.directory.partition_files import Checkpoints, home_of
from logdex.kafka.files import file_names as files
from logdex.kafka.files.file_names import offset_file_name, offsets_of, parse_offset_file
from logdex.kafka.segment.time_index import TRIMMED_SIZE_BYTES

RESTORE_LAST_SEGMENT = "the log's last segment may be cut or missing: restore it first, if there is a copy"
_INDEX_SUFFIXES = (files.INDEX_SUFFIX, files.TIME_INDEX_SUFFIX, files.TXN_INDEX_SUFFIX)


@dataclass(frozen=True, slots=True)
class LostSegment:
    """A segment without its .log, which would be at `path`, or whose .log is empty. Its offsets are
    below `next_offset`, which is -1 if no segment is known behind it. With `is_behind` it comes
    after all logs that are there. `why` names what tells of it."""

    path: str
    base_offset: int
    next_offset: int
    is_behind: bool
    why: str

    def is_wanted(self, first_offset: int, end_offset: int, log_end_offset: int) -> bool:
        """Whether its offsets are among those from `first_offset` to before `end_offset`. Whoever
        reads up to the end of the log wants what was behind it."""
        if 0 <= self.next_offset <= first_offset:
            return False
        return end_offset > self.base_offset or (self.is_behind and end_offset >= log_end_offset)

    def error(self, first_offset: int = 0) -> LostSegmentError:
        """Returns the error for whoever wants the offsets from `first_offset` on."""
        first = max(first_offset, self.base_offset)
        if self.next_offset < 0:
            lost = f"offsets from {first} on are lost, as many as there were"
        else:
            lost = f"offsets {first} to {self.next_offset - 1} are lost, those of them that there were"
        return LostSegmentError(self.why, lost, path=self.path)


class Segment(Protocol):
    """A segment that is there, with the size of its .log."""

    @property
    def base_offset(self) -> int:
        """The offset in its name."""

    @property
    def size_bytes(self) -> int:
        """The size of its .log in bytes."""


def lost_segments(
    directory: str, segments: Iterable[Segment], start_offset: Callable[[], int], env: Env
) -> list[LostSegment]:
    """Returns the lost segments of the partition in `directory` that have offsets from
    `start_offset` on, in their order. `segments` are those that are there, of which some may be
    empty. A second look must find the same, because a broker may be at work."""
    empty = {each.base_offset for each in segments if not each.size_bytes}
    found = _look(directory, empty, env)
    if not found:
        return []
    pause()
    start, again = start_offset(), _look(directory, empty, env)
    return [each for each in found if each in again and not 0 <= each.next_offset <= start]


def _look(directory: str, empty: Collection[int], env: Env) -> list[LostSegment]:
    try:
        names = env.list_dir(directory)
        logs, indexes = offsets_of(names, files.LOG_SUFFIX), dict[int, list[str]]()
        for name in names:
            parsed = parse_offset_file(name)
            if parsed is not None and parsed[1] in _INDEX_SUFFIXES:
                indexes.setdefault(parsed[0], []).append(f"{directory}/{name}")
        return find_lost(directory, names, logs, indexes, empty, env)
    except VanishedError:  # a broker is deleting the partition, or a segment
        return []


def find_lost(
    directory: str,
    names: Iterable[str],
    logs: Sequence[int],
    indexes: Mapping[int, Sequence[str]],
    empty: Collection[int],
    env: Env,
) -> list[LostSegment]:
    """Returns the lost segments of a directory with some `names`. `logs` are the base offsets of
    the logs that are there, in order, `empty` those of them without a byte; `indexes` are the paths
    of indexes by base offset. The last log may be empty, as a broker's new one is. Raises
    `VanishedError` if an index is not there any more."""
    kept = {*logs} - ({*empty} - {*logs[-1:]})
    kept |= {*offsets_of(names, files.LOG_SUFFIX + files.DELETED_SUFFIX)}
    whys: dict[int, str] = {}
    for base in sorted(indexes.keys() - kept):
        with_entries = [path for path in indexes[base] if _has_entries(path, env)]
        if with_entries and (not logs or base >= logs[0]):
            what = "the file is empty" if base in logs else "there is no such file"
            whys[base] = f"{what}, but {posixpath.basename(with_entries[0])} has entries"
    known = sorted({*logs, *whys})
    return [
        LostSegment(
            f"{directory}/{offset_file_name(base, files.LOG_SUFFIX)}",
            base,
            next((each for each in known if each > base), -1),
            not logs or base > logs[-1],
            why,
        )
        for base, why in whys.items()
    ]


def _has_entries(path: str, env: Env) -> bool:
    """Whether an index has entries; True if it cannot be read. Raises `VanishedError` if it is not
    there any more."""
    try:
        data = env.read_file(path, limits.INDEX_SIZE_BYTES_MAX)
        is_trimmed = path.endswith(files.TIME_INDEX_SUFFIX) and len(data) == TRIMMED_SIZE_BYTES
        return is_trimmed or data.count(0) < len(data)
    except VanishedError:
        raise
    except StoreError:
        return True


class LostEnd(NamedTuple):
    """`text` says which checkpoint has which offset of a partition, and where the log ends.
    `offset` is that offset."""

    text: str
    offset: int


def find_lost_end(directory: str, known: Checkpoints, end_offset: int, env: Env) -> LostEnd | None:
    """Returns what the checkpoints `known` of the partition in `directory` tell of offsets from
    `end_offset`, the end of its log, on; None if nothing."""
    offset, file = known.recovery_point or 0, files.RECOVERY_POINT_CHECKPOINT
    if (known.high_watermark or 0) > offset:
        offset, file = known.high_watermark or 0, files.HIGH_WATERMARK_CHECKPOINT
    if offset <= end_offset:
        return None
    home = home_of(env.real_path(directory), env=env)[0]
    name = directory.rstrip("/").rpartition("/")[2]
    return LostEnd(f"{home}/{file}: it has offset {offset} of {name}, and the log ends at {end_offset}", offset)
