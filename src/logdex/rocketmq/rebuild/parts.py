"""A CommitLog in parts: plans the parts, scans one part, and joins the results.

Parts make a rebuild parallel; this module does not depend on what runs the tasks. A part begins
where its file begins, or at the first message that its task finds in its bytes
(`logdex.rocketmq.scan.resume`). This is checked afterwards: if the parts of a file do not join up
byte for byte (a body looked like messages), the rest of that file is scanned again as one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from logdex.errors import VanishedError
from logdex.io.env import DEFAULT_ENV, Env
from logdex.jobs.tasks import group_parts
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.commit_log.log_end import LeftOutRange, LogEnd, next_file_or_end, rest_to_leave_out
from logdex.rocketmq.consume_queue.derive import ConsumeQueueDeriver
from logdex.rocketmq.files.offset_files import was_trimmed
from logdex.rocketmq.rebuild.stage import StageFile, StageWriter
from logdex.rocketmq.rebuild.store_writer import index_window
from logdex.rocketmq.scan.scan_part import ScanPart
from logdex.rocketmq.scan.scanner import Behind, Scanner
from logdex.rocketmq.scan.topic_table import QueueName
from logdex.rocketmq.scan.window import Window
from logdex.rocketmq.settings.store_config import StoreConfig

PART_SIZE_BYTES_MIN = 64 << 20
"""With smaller parts the cost of a task itself is noticeable."""
PART_SIZE_BYTES_MAX = 1 << 30
"""The size of a broker's file. No task takes longer than a second or two."""
PARTS_PER_CORE = 2


@dataclass(slots=True)
class PartScan:
    """The result of scanning a part.

    `first` is the byte of its first message, -1 if none was found. `next` is the byte where the
    next part must begin, -1 if the file, or the log (at `end`), ends in this part. `behind` is the
    byte after the last message. `queues` maps each queue to its number in the stage file and the
    number of its ConsumeQueue entries, in the order of first entries. `keyless_messages` is the
    number of messages after the last one that has keys. `newest_ms` is the greatest store time of a
    message. `last_crc` is the CRC-32 of all bytes of
    the last message. `left_out` has the ranges that could not be read. `was_trimmed` states that a
    broker has removed the file before it was scanned: then it has no messages.
    """

    part: ScanPart
    first: int
    next: int = -1
    behind: int = 0
    end: LogEnd | None = None
    messages: int = 0
    keys: int = 0
    keyless_messages: int = 0
    newest_ms: int = 0
    last_crc: int = 0
    queues: dict[QueueName, tuple[int, int]] = field(default_factory=dict)
    stage: StageFile | None = None
    left_out: list[LeftOutRange] = field(default_factory=list)
    was_trimmed: bool = False


def parallel_part_size(total_bytes: int, cores: int) -> int:
    """Returns a part size that keeps `cores` cores busy without making tasks too small."""
    wanted = total_bytes // max(PARTS_PER_CORE * cores, 1)
    return min(max(wanted, PART_SIZE_BYTES_MIN), PART_SIZE_BYTES_MAX)


def plan_parts(log: CommitLog, part_size_bytes: int) -> list[list[ScanPart]]:
    """Returns the parts of a log in order, grouped into tasks: a part of a large file, a whole
    file, or several small files.

    Uses only the listing of the directory. Files after a missing one are left out, as by a scan.
    """

    def parts() -> Iterator[ScanPart]:
        for file in reachable_files(log):
            count = max(1, round(file.size_bytes / part_size_bytes))
            bounds = [file.size_bytes * i // count for i in range(count + 1)]
            for begin, stop in pairwise(bounds):
                yield ScanPart(file, begin, stop, found=begin == 0)

    return group_parts(parts(), part_size_bytes)


def reachable_files(log: CommitLog) -> list[CommitLogFile]:
    """Returns the log's files from the first one that can be read up to the first missing one."""
    first = log.readable_from()
    readable = [file for file in log.files if file.start_offset >= first]
    files = [readable[0]]
    for file in readable[1:]:
        if file.start_offset != files[-1].start_offset + log.file_size_bytes:
            break
        files.append(file)
    return files


def scan_part(
    part: ScanPart,
    config: StoreConfig,
    stage_path: str,
    *,
    behind: Behind | None = None,
    env: Env = DEFAULT_ENV,
    progress: Callable[[int, int], None] | None = None,
) -> PartScan:
    """Scans a part into a new stage file, one window at a time; `behind` as of `Scanner`.
    `progress` is called with the (messages, bytes) of each window."""
    try:
        first = part.first_message(env)
    except VanishedError:
        first = part.begin  # the scan asks why it is not there
    if first is None:
        return PartScan(part, -1)
    result = PartScan(part, first)
    scanner = Scanner(config, env=env, unreadable_is_damage=True, behind=behind)
    deriver = ConsumeQueueDeriver()
    windows = scanner.scan_file(part.file, first, part.stop)
    at = first
    with StageWriter(stage_path, part.stop - part.begin, env) as stage:
        while True:
            try:
                window = next(windows)
            except StopIteration as stop:
                result.end = stop.value
                break
            except VanishedError:
                if not was_trimmed(part.file, env):
                    raise
                result.was_trimmed, at = True, part.stop
                break
            _stage_window(window, scanner, deriver, stage, result)
            before, at = at, window.end_offset - part.file.start_offset
            if progress is not None:
                progress(window.count, at - before)
        result.stage = stage.finish()
    if scanner.left_out:
        result.left_out = scanner.left_out
        at = max(at, scanner.left_out[-1].end - part.file.start_offset)
    result.behind = 0 if result.was_trimmed else at
    if result.end is None and part.stop <= at < part.file.size_bytes:
        result.next = at
    return result


def _stage_window(
    window: Window, scanner: Scanner, deriver: ConsumeQueueDeriver, stage: StageWriter, result: PartScan
) -> None:
    names = scanner.table.queues
    index, runs = index_window(window), deriver.derive(window, scanner.table)
    stage.put(index, runs)
    result.messages += window.count
    result.newest_ms = max(result.newest_ms, window.newest_ms)
    result.last_crc = window.last_crc()
    if window.key_count:
        result.keys += window.key_count
        with_keys = int(np.searchsorted(index.key_end, window.key_count, side="left")) + 1
        result.keyless_messages = window.count - with_keys
    else:
        result.keyless_messages += window.count
    start = 0
    for number, end in zip(runs.queue.tolist(), runs.end.tolist(), strict=True):
        _, entries = result.queues.get(names[number], (number, 0))
        result.queues[names[number]] = number, entries + end - start
        start = end


@dataclass(slots=True)
class WholeLog:
    """The parts of the valid log, in order and without gaps, and the log's end. `left_out` has the
    ranges that could not be read. `trimmed` has the paths of the files that a broker removed before
    the scan; if there is a message behind them, the log begins there."""

    scans: list[PartScan]
    end: LogEnd
    left_out: list[LeftOutRange]
    trimmed: list[str]

    @property
    def messages(self) -> int:
        """The number of messages in the valid log."""
        return sum(scan.messages for scan in self.scans)

    @property
    def newest_ms(self) -> int:
        """The greatest store time of a message, 0 without messages."""
        return max((scan.newest_ms for scan in self.scans), default=0)

    @staticmethod
    def of(scans: list[PartScan], end: LogEnd, left_out: list[LeftOutRange]) -> WholeLog:
        """Returns the log of all parts up to `end`, with those before a removed file left out,
        because the broker has removed their files as well."""
        trimmed = [place for place, scan in enumerate(scans) if scan.was_trimmed]
        paths = list(dict.fromkeys(scans[place].part.file.path for place in trimmed))
        last = max((place for place, scan in enumerate(scans) if scan.messages and not scan.was_trimmed), default=-1)
        begin = max((place + 1 for place in trimmed if place < last), default=0)
        return WholeLog(scans[begin:], end, left_out, paths)


def join_parts(log: CommitLog, scans: Sequence[PartScan]) -> WholeLog | list[ScanPart]:
    """Returns the valid log, as `Scanner.scan` finds it, or the parts that must be scanned again
    first.

    `scans` are in log order; the scan of a part that was scanned again comes after the one that it
    replaces.
    """
    joined: list[PartScan] = []
    left_out: list[LeftOutRange] = []
    again: list[ScanPart] = []
    files = reachable_files(log)
    of_file: dict[CommitLogFile, list[PartScan]] = {file: [] for file in files}
    for scan in scans:
        of_file[scan.part.file].append(scan)
    for file in files:
        kept, missing = _join_file(file, of_file[file])
        joined += kept
        if missing is not None:
            again.append(missing)
            continue
        left_out += [each for scan in kept for each in scan.left_out]
        behind, stop = kept[-1].behind, kept[-1].end
        if (rest := rest_to_leave_out(log, file, stop)) is not None:
            left_out.append(rest)
            behind, stop = file.size_bytes, None
        end = next_file_or_end(log, file, behind, stop, unreadable_is_damage=True)
        if isinstance(end, LogEnd):
            # What follows the end is not part of the log, whatever it looks like.
            return again or WholeLog.of(joined, end, left_out)
    return again


def _join_file(file: CommitLogFile, scans: list[PartScan]) -> tuple[list[PartScan], ScanPart | None]:
    """Returns the scans that follow each other without a gap from the file's first byte on, and the
    rest of the file as a part to scan if there is a gap."""
    by_first = {scan.first: scan for scan in scans if scan.first >= 0}
    kept: list[PartScan] = []
    at = 0
    while at >= 0:
        scan = by_first.get(at)
        if scan is None:
            return kept, ScanPart(file, at, file.size_bytes, found=True)
        kept.append(scan)
        at = scan.next
    return kept, None
