"""Log directories of thousands of partitions under a small limit of open files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.hostile.few_descriptors import run_json_limited, run_limited

SEGMENTS = 3

LOOK_UPS = """
import json
import logdex
with logdex.open(sys.argv[1]) as snapshot:
    found = [each.offset_for_timestamp(1001).offset for each in snapshot.partitions.values()]
    again = [each.offset_for_timestamp(1000 + 2).offset for each in snapshot.partitions.values()]
    rows = sum(batch.num_rows for batch in snapshot.scan().arrow_reader())
print(json.dumps([found, again, rows]))
"""


def make(root: Path, partitions: int) -> None:
    """Copies of one partition, whose directory is removed in the end."""
    with Log.open(str(root / "first-0"), segment_index_bytes=240) as log:
        for number in range(SEGMENTS):
            log.append([Record(b"k", b"v %d" % number, timestamp_ms=1000 + number)])
            if number + 1 < SEGMENTS:
                log.roll()
    for number in range(partitions):
        shutil.copytree(root / "first-0", root / f"events-{number}")
    shutil.rmtree(root / "first-0")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=some\n")


@pytest.mark.parametrize("partitions", [100, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_many_partitions_under_a_small_limit(tmp_path: Path, partitions: int) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    make(root, partitions)
    told = run_json_limited("info", root)
    assert sum(each.get("log_end_offset") == SEGMENTS for each in told) == partitions
    found, again, rows = json.loads(run_limited("-c", LOOK_UPS, root))
    assert (found, again, rows) == ([1] * partitions, [2] * partitions, SEGMENTS * partitions)
    last = run_json_limited("verify", root)[-1]
    assert last["files"] > 3 * partitions
