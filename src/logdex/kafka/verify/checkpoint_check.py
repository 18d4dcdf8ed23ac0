"""Compares the four offset checkpoints of a log directory with the ends of its logs."""

from __future__ import annotations

import posixpath
from typing import NamedTuple

from logdex.errors import CorruptError, UnreadableError, VanishedError
from logdex.io.env import Env
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import (
    CheckpointLine,
    TopicPartition,
    checked_number,
    malformed,
    read_checkpoint_lines,
)
from logdex.kafka.verify.checks import REMOVE, REMOVE_LINE, REMOVE_STARTS, Collector
from logdex.primitives.shown import counted

CHECKPOINTS = {
    files.RECOVERY_POINT_CHECKPOINT: "the recovery point",
    files.LOG_START_CHECKPOINT: "the log start offset",
    files.HIGH_WATERMARK_CHECKPOINT: "the high watermark",
    files.CLEANER_CHECKPOINT: "the cleaner's offset",
}


class LogEnd(NamedTuple):
    """The end of a partition's log. `is_certain` states that no bytes were lost there."""

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


def check_checkpoints(stored: Stored, ends: dict[TopicPartition, LogEnd], out: Collector) -> None:
    """Reports a finding per checkpointed offset that lies after its log's end. Partitions that are
    not in the directory are reported as information."""
    for path, lines in stored.items():
        out.files += 1
        try:
            if not isinstance(lines, list):
                raise lines
            _check(path, CHECKPOINTS[posixpath.basename(path)], lines, ends, out)
        except (CorruptError, UnreadableError) as error:
            is_starts = path.endswith(f"/{files.LOG_START_CHECKPOINT}")
            out.find_error("checkpoint-malformed", error, REMOVE_STARTS if is_starts else REMOVE)


def _check(
    path: str, what: str, lines: list[CheckpointLine], ends: dict[TopicPartition, LogEnd], out: Collector
) -> None:
    unknown = []
    for line in lines:
        fields = line.text.split()
        if len(fields) != 3:
            raise malformed(path, line, "topic partition offset")
        name = TopicPartition(fields[0], checked_number(path, line, fields[1], 31))
        offset = checked_number(path, line, fields[2], 63)
        end = ends.get(name)
        if end is None:
            unknown.append(str(name))
        elif offset > end.next_offset and end.is_certain:
            out.find(
                "checkpoint-offset",
                path,
                line.position,
                f"{what} of {name} lies behind its log's end",
                expected=f"at most {end.next_offset}",
                found=offset,
                mend=REMOVE_LINE,
            )
    if unknown:
        shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        told = counted(len(unknown), "partition is", "partitions are")
        out.info("checkpoint-unknown-partition", path, f"{told} not here: {shown}")
