"""Logs of many segments under a small limit of open files, and with few mappings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SEGMENTS = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
import logdex
from logdex.io.mapped.kept_mappings import MAPPED_MAX
from logdex.kafka import Log, Record
from logdex.kafka.files.file_names import LONE_CLEAN_MARK, RECOVERY_POINT_CHECKPOINT
path, count = Path(sys.argv[1]), int(sys.argv[2])
def check_few_are_mapped():
    if sys.platform == "linux":
        mapped = [line for line in open("/proc/self/maps") if line.strip().endswith(("index", "index (deleted)"))]
        assert 0 < len(mapped) <= MAPPED_MAX, len(mapped)
settings = {"segment_index_bytes": 240, "clock_ms": lambda: 1_000_000}
with Log.open(path, **settings) as log:
    for number in range(count):
        log.append(Record(b"k", b"v %d" % number, timestamp_ms=1000 + number))
        log.roll()
    assert len(log.segments) == count + 1
    assert [len(log.read(offset, max_bytes=1)) > 0 for offset in range(count)] == [True] * count
    assert log.offset_for_timestamp(1000 + count // 2).offset == count // 2
    assert [log.offset_for_timestamp(1000 + number).offset for number in range(0, count, 7)] == [*range(0, count, 7)]
    check_few_are_mapped()
(path / LONE_CLEAN_MARK).unlink()
(path / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)
with Log.open(path, **settings) as log:  # every segment is recovered
    assert log.log_end_offset == count
    assert sum(1 for _ in log.records()) == count
    check_few_are_mapped()
    log.truncate_to(count - 1)
with logdex.open(path) as snapshot:
    assert sum(1 for _ in snapshot.scan()) == count - 1
    assert snapshot.offset_for_timestamp(1000 + count // 2).offset == count // 2
    check_few_are_mapped()
"""


@pytest.mark.parametrize("segments", [300, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_many_segments_under_a_small_limit(tmp_path: Path, segments: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEGMENTS, str(tmp_path / "events-0"), str(segments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
