"""Compares the four offset checkpoints of a log directory with the ends of its logs.

A broker that cuts a log, or deletes a topic, changes the checkpoints a moment later. So an offset
behind the end of its log is a finding only if further looks at both have it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import NamedTuple

from logdex.errors import CorruptError, StoreError, UnreadableError, VanishedError
from logdex.io.env import Env
from logdex.jobs import look_again
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import (
    CheckpointLine,
    TopicPartition,
    checked_number,
    malformed,
    read_checkpoint_lines,
)
from logdex.kafka.read.read_filter import OFFSET_MAX
from logdex.kafka.read.scan_state import find_end
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.verify.checks import REMOVE, REMOVE_LINE, REMOVE_STARTS, Collector
from logdex.primitives.shown import counted

CHECKPOINTS = {
    files.RECOVERY_POINT_CHECKPOINT: "the recovery point",
    files.LOG_START_CHECKPOINT: "the log start offset",
    files.HIGH_WATERMARK_CHECKPOINT: "the high watermark",
    files.CLEANER_CHECKPOINT: "the cleaner's offset",
}


_LOOKS = 3
"""How often an offset behind the end of its log is looked at again, each time after twice as
long."""


class LogEnd(NamedTuple):
    """The end of the log of the partition in `directory`. `is_certain` states that no bytes were
    lost there."""

    directory: str
    next_offset: int
    is_certain: bool


Stored = dict[str, list[CheckpointLine] | CorruptError | UnreadableError]
"""The lines of each offset checkpoint by its path, or why they cannot be read."""


def read_checkpoints(directory: str, env: Env) -> Stored:
    """Returns the offset checkpoints of a directory. Read them before the logs: a broker that
    appends meanwhile writes checkpoints that are ahead of what was read."""
    stored: Stored = {}
    for name in CHECKPOINTS:
        path = f"{directory}/{name}"
        try:
            if env.exists(path):
                stored[path] = read_checkpoint_lines(path, env=env)
        except VanishedError:
            continue
        except (CorruptError, UnreadableError) as error:
            stored[path] = error
    return stored


class _Behind(NamedTuple):
    """An offset of a checkpoint, at byte `position` of the file, that lies behind `end`."""

    path: str
    position: int
    name: TopicPartition
    offset: int
    end: LogEnd


def check_checkpoints(stored: Stored, ends: dict[TopicPartition, LogEnd], out: Collector, env: Env) -> None:
    """Reports a finding per checkpointed offset that lies after its log's end. Partitions that are
    not in the directory are reported as information."""
    behind: list[_Behind] = []
    for path, lines in stored.items():
        out.files += 1
        try:
            if not isinstance(lines, list):
                raise lines
            behind += _offsets_behind(path, lines, ends, out)
        except (CorruptError, UnreadableError) as error:
            is_starts = path.endswith(f"/{files.LOG_START_CHECKPOINT}")
            out.find_error("checkpoint-malformed", error, REMOVE_STARTS if is_starts else REMOVE)
    for each in _still_behind(behind, env):
        out.find(
            "checkpoint-offset",
            each.path,
            each.position,
            f"{CHECKPOINTS[posixpath.basename(each.path)]} of {each.name} lies behind its log's end",
            expected=f"at most {each.end.next_offset}",
            found=each.offset,
            mend=REMOVE_LINE,
        )


def _offsets_behind(
    path: str, lines: list[CheckpointLine], ends: dict[TopicPartition, LogEnd], out: Collector
) -> list[_Behind]:
    behind, unknown = list[_Behind](), list[str]()
    for line, name, offset in _offsets_of(path, lines):
        end = ends.get(name)
        if end is None:
            unknown.append(str(name))
        elif offset > end.next_offset and end.is_certain:
            behind.append(_Behind(path, line.position, name, offset, end))
    if unknown:
        shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        told = counted(len(unknown), "partition is", "partitions are")
        out.info("checkpoint-unknown-partition", path, f"{told} not here: {shown}")
    return behind


def _offsets_of(path: str, lines: list[CheckpointLine]) -> Iterator[tuple[CheckpointLine, TopicPartition, int]]:
    for line in lines:
        fields = line.text.split()
        if len(fields) != 3:
            raise malformed(path, line, "topic partition offset")
        name = TopicPartition(fields[0], checked_number(path, line, fields[1], 31))
        yield line, name, checked_number(path, line, fields[2], 63)


def _still_behind(behind: list[_Behind], env: Env) -> list[_Behind]:
    """Returns those offsets that all further looks find behind the ends of their logs."""
    for look in range(_LOOKS):
        if not behind:
            break
        look_again.pause(1 << look)
        offsets = {path: _stored_now(path, env) for path in {each.path for each in behind}}
        ends = {directory: _end_now(directory, env) for directory in {each.end.directory for each in behind}}
        behind = [
            each
            for each in behind
            if offsets[each.path].get(each.name, -1) > max(each.end.next_offset, ends[each.end.directory])
        ]
    return behind


def _stored_now(path: str, env: Env) -> dict[TopicPartition, int]:
    """Returns the offsets of a checkpoint; none if it cannot be read any more."""
    try:
        return {name: offset for _, name, offset in _offsets_of(path, read_checkpoint_lines(path, env=env))}
    except StoreError:
        return {}


def _end_now(directory: str, env: Env) -> int:
    """Returns the offset after the last batch of a partition: -1 if that cannot be read,
    `OFFSET_MAX` if the partition was deleted."""
    try:
        offsets = files.offsets_of(env.list_dir(directory), files.LOG_SUFFIX)
        if offsets:
            with LogSegment(directory, offsets[-1], LogConfig(), env=env) as segment:
                return find_end(segment, env)[0]
    except StoreError:
        pass
    return -1 if env.is_dir(directory) else OFFSET_MAX
