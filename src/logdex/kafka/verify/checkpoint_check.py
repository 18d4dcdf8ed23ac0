"""Compares the four offset checkpoints of a log directory with the ends of its logs."""

from __future__ import annotations

from typing import NamedTuple

from logdex.errors import CorruptError, UnreadableError
from logdex.io.env import Env
from logdex.jobs.findings import counted
from logdex.kafka.files import file_names as files
from logdex.kafka.files.checkpoints import TopicPartition, checked_number, malformed, read_checkpoint_lines
from logdex.kafka.verify.checks import REMOVE, Collector

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


def check_checkpoints(directory: str, ends: dict[TopicPartition, LogEnd], out: Collector, env: Env) -> None:
    """Reports a finding per checkpointed offset that lies after its log's end. Partitions that are
    not in the directory are reported as information."""
    for name, what in CHECKPOINTS.items():
        path = f"{directory}/{name}"
        if not env.exists(path):
            continue
        out.files += 1
        try:
            _check(path, what, ends, out, env)
        except (CorruptError, UnreadableError) as error:
            out.find_error("checkpoint-malformed", error, REMOVE)


def _check(path: str, what: str, ends: dict[TopicPartition, LogEnd], out: Collector, env: Env) -> None:
    unknown = []
    for line in read_checkpoint_lines(path, env=env):
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
                mend=REMOVE,
            )
    if unknown:
        shown = ", ".join(unknown[:5]) + (", …" if len(unknown) > 5 else "")
        told = counted(len(unknown), "partition is", "partitions are")
        out.info("checkpoint-unknown-partition", path, f"{told} not here: {shown}")
