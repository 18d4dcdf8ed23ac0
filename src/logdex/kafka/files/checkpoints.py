"""Kafka's text checkpoints: a version, a count, and one line per entry.

The four checkpoints of a log directory have one offset per partition:
``recovery-point-offset-checkpoint`` (flushed up to this offset), ``log-start-offset-checkpoint``,
``replication-offset-checkpoint`` (high watermarks) and ``cleaner-offset-checkpoint``. Source:
``docs/formats/kafka-log-directory.md``; Kafka's CheckpointFile, OffsetCheckpointFile.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logdex import limits
from logdex.errors import CorruptError
from logdex.io.atomic_file import write_atomically
from logdex.io.env import DEFAULT_ENV, Env

VERSION = 0
_LINES_MAX = 500_000
"""A line is a partition of the log directory, or a leader epoch, and takes 400 bytes of memory."""
_NUMBER = re.compile(r"[+-]?\d{1,19}")
_HINT = "remove the file: a broker then derives it from the log again"


class TopicPartition(NamedTuple):
    """The name of a partition. Its directory is ``topic-partition``."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class CheckpointLine(NamedTuple):
    """A line of a checkpoint: its number (from 1), the byte position where it begins, its text."""

    number: int
    position: int
    text: str


def read_offset_checkpoint(path: str, *, env: Env = DEFAULT_ENV) -> dict[TopicPartition, int]:
    """Reads offsets by partition; empty if the file is missing or empty.

    Raises `CorruptError`, with line and byte position, for a malformed file.
    """
    offsets = {}
    for line in read_checkpoint_lines(path, env=env):
        fields = line.text.split()
        if len(fields) != 3:
            raise malformed(path, line, "topic partition offset")
        partition, offset = checked_number(path, line, fields[1], 31), checked_number(path, line, fields[2], 63)
        offsets[TopicPartition(fields[0], partition)] = offset
    return offsets


def write_offset_checkpoint(path: str, offsets: Mapping[TopicPartition, int], *, env: Env = DEFAULT_ENV) -> None:
    """Replaces the checkpoint at `path`. The lines have the order of `offsets`."""
    lines = [f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items()]
    write_atomically(path, format_checkpoint(lines), env=env)


def format_checkpoint(lines: Sequence[str]) -> bytes:
    """The bytes of a checkpoint with these entry lines."""
    return "".join(f"{line}\n" for line in (VERSION, len(lines), *lines)).encode()


def read_checkpoint_lines(path: str, *, env: Env = DEFAULT_ENV) -> list[CheckpointLine]:
    """The entry lines; none if the file is missing or has no count."""
    if not env.exists(path):
        return []
    return split_checkpoint(env.read_file(path, limits.CHECKPOINT_FILE_SIZE_BYTES_MAX), path=path)


def split_checkpoint(data: bytes, *, path: str = "<bytes>") -> list[CheckpointLine]:
    """The entry lines of a checkpoint's bytes.

    Raises `CorruptError` for an unknown version or a wrong count.
    """
    lines = _lines(data, path)
    if lines and checked_number(path, lines[0], lines[0].text, 31, signed=True) != VERSION:
        raise malformed(path, lines[0], f"version {VERSION}")
    if len(lines) < 2:
        return []
    count, entries = checked_number(path, lines[1], lines[1].text, 31), lines[2:]
    if len(entries) != count:
        raise malformed(path, lines[1], f"{len(entries)}, the number of lines that follow")
    return entries


def _lines(data: bytes, path: str) -> list[CheckpointLine]:
    breaks = data.count(b"\n") + data.count(b"\r")
    if breaks > 2 * _LINES_MAX:
        raise malformed(path, CheckpointLine(1, 0, f"{breaks} line breaks"), f"at most {_LINES_MAX} lines")
    lines, at = [], 0
    for number, raw in enumerate(data.splitlines(keepends=True), 1):
        try:
            text = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            line = CheckpointLine(number, at, raw.decode("utf-8", "backslashreplace"))
            raise malformed(path, line, "UTF-8") from error
        lines.append(CheckpointLine(number, at, text))
        at += len(raw)
    return lines


def checked_number(path: str, line: CheckpointLine, text: str, bits: int, *, signed: bool = False) -> int:
    """Parses the decimal number `text` of a line. Raises `CorruptError` beyond `bits` bits."""
    value = int(text) if text.isascii() and _NUMBER.fullmatch(text) else None
    if value is None or not (-(1 << bits) if signed else 0) <= value < 1 << bits:
        raise malformed(path, line, f"a number below 2^{bits}")
    return value


def malformed(path: str, line: CheckpointLine, expected: str) -> CorruptError:
    """The error for a malformed line."""
    return CorruptError(
        f"line {line.number} is malformed",
        path=path,
        position=line.position,
        field=f"line {line.number}",
        expected=expected,
        found=repr(line.text[:80]),
        hint=_HINT,
    )
