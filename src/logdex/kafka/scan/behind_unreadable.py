"""Scans a .log, and goes on behind bytes that the disk cannot read.

Where it goes on is decided by `logdex.kafka.scan.resume`. It does not go on behind other damage.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

from logdex.io.env import Env
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import BatchScanner, BatchWindow, ScanEnd, map_log


class LeftOutBytes(NamedTuple):
    """Bytes [`start`, `end`) of a .log in which no batch can be read, and `why`."""

    start: int
    end: int
    why: str


def scan_readable(
    scanner: BatchScanner, path: str, stop: int | None, left_out: list[LeftOutBytes], env: Env
) -> Generator[BatchWindow, None, ScanEnd]:
    """Yields what `scanner.scan_file` yields, and goes on behind bytes that cannot be read, which
    are added to `left_out`. If no batch follows them, the end that is returned lies before them.
    For `scanner`, unreadable bytes must be damage."""
    with map_log(path, env) as mapped:
        resume, position = LogResume(mapped.array, path, env), 0
        while True:
            end = yield from scanner.scan_bytes(mapped.array, position, stop, path=path)
            position = resume.behind(end).position if end.is_unreadable else -1
            if position < 0:
                return end
            if left_out and left_out[-1].end == end.position:  # the next batch cannot be read either
                left_out[-1] = left_out[-1]._replace(end=position)
            else:
                left_out.append(LeftOutBytes(end.position, position, end.reason))
