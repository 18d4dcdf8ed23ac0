"""Zeros with messages behind them are no end: told by scan, info, rebuild on both engines alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.commit_log.log_end import EndKind, LogEnd, end_at_zeros, next_file_or_end
from logdex.rocketmq.geometry.resolve import resolve_config
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.parts import WholeLog, join_parts, plan_parts, scan_part
from logdex.rocketmq.scan.log_extent import find_valid_end, scan_extent
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.snapshot.overview import overview
from tests.golden import rocketmq as golden

MESSAGES = golden.manifest("tiny-5.5.0")["messages"]


def zero(store: Path, start: int, end: int) -> None:
    """Writes zeros over physical offsets [start, end), which lie in one file."""
    with (store / "commitlog" / f"{start // 32768 * 32768:020d}").open("r+b") as file:
        file.seek(start % 32768)
        file.write(bytes(end - start))


def holes() -> list[tuple[int, int]]:
    """A hole inside the first file, from a message to that file's end, and in the last file."""
    first = [message["physicalOffset"] for message in MESSAGES if message["physicalOffset"] < 32768]
    return [(first[9], first[11]), (first[20], 32768), (MESSAGES[-3]["physicalOffset"], MESSAGES[-2]["physicalOffset"])]


@pytest.mark.parametrize("hole", holes())
def test_a_hole_is_lossy_whoever_looks(hole: tuple[int, int], golden_copy: Any, tmp_path: Path) -> None:
    store = golden_copy("tiny-5.5.0")
    zero(store, *hole)
    config = resolve_config(str(store))
    report = rebuild(str(store), str(tmp_path / "out"), config)
    assert (report.end, report.end_offset, report.lossy) == ("hole", hole[0], True)
    log = CommitLog(f"{store}/commitlog", file_size_bytes=32768)
    for offset in (None, MESSAGES[0]["physicalOffset"]):
        end = scan_extent(log, offset, config).end
        assert (end.kind, end.offset, end.is_clean) == (EndKind.HOLE, hole[0], False)
    before = max(message["physicalOffset"] for message in MESSAGES if message["physicalOffset"] < hole[0])
    end = find_valid_end(log, [before], config).end
    in_the_last_file = hole[0] >= log.files[-1].start_offset
    assert (end.kind is EndKind.HOLE) == in_the_last_file, "looked for from the newest file on"
    assert end == scan_extent(log, before if in_the_last_file else log.files[-1].start_offset, config).end


@pytest.mark.parametrize("hole", holes())
def test_parts_tell_it_as_a_whole_scan_does(hole: tuple[int, int], golden_copy: Any, tmp_path: Path) -> None:
    store = golden_copy("tiny-5.5.0")
    zero(store, *hole)
    config = resolve_config(str(store))
    log = CommitLog(f"{store}/commitlog", file_size_bytes=32768)
    scanner = Scanner(config)
    for _ in scanner.scan(log):
        pass
    parts = [part for task in plan_parts(log, 32768) for part in task]
    scans = [scan_part(part, config, str(tmp_path / f"{place}")) for place, part in enumerate(parts)]
    whole = join_parts(log, scans)
    assert isinstance(whole, WholeLog)
    assert whole.end == scanner.end
    assert whole.end.kind is EndKind.HOLE


def test_a_log_that_grew_since_it_was_read_has_no_hole(golden_copy: Any) -> None:
    """A broker writes on while its log is read: where zeros were, messages are, in this file and in
    the next one."""
    log = CommitLog(f"{golden_copy('tiny-5.5.0')}/commitlog", file_size_bytes=32768)
    first = log.files[0]
    offset = next(message["physicalOffset"] for message in MESSAGES[9:])
    was_there = LogEnd(EndKind.ZEROS, offset, first.path, offset, "nothing was written from here on")
    data = np.fromfile(first.path, np.uint8)
    assert end_at_zeros(first, offset, data) == was_there
    assert next_file_or_end(log, first, offset, was_there) == was_there
    data[offset : offset + 8] = 0
    assert end_at_zeros(first, offset, data).kind is EndKind.HOLE


def test_zeros_with_nothing_behind_are_a_good_end(golden_store: Any) -> None:
    store = str(golden_store("tiny-5.5.0"))
    look = overview(store, resolve_config(store))
    assert (look.log.end, look.log.is_clean_end) == ("zeros", True)
