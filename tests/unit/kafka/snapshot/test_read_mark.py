"""A partition is known again by the last batch that was read, whatever a compaction made of it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from logdex.kafka import Log, Record
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.snapshot.read_mark import ReadMark
from tests.examples import every

TIME_MS = 1_700_000_000_000


def mark_of(path: str) -> ReadMark:
    with PartitionSnapshot(path) as partition:
        return ReadMark.of(partition, partition.log_end_offset)


@pytest.mark.parametrize("seed", every(10, range(40)))
def test_no_compaction_makes_another_log(tmp_path: Path, seed: int) -> None:
    """No ids help here: records, whole batches and the markers of transactions go."""
    chance, path, marks, sequence = random.Random(seed), str(tmp_path / "t-0"), list[ReadMark](), 0
    settings: dict[str, Any] = {
        "segment_bytes": chance.choice([400, 2000]),
        "delete_retention_ms": chance.choice([0, 1 << 40]),
    }
    with Log.open(path, cleanup_policy="compact", **settings) as log:
        for turn in range(2):
            for _ in range(15):
                keys = [b"k%d" % chance.randrange(6) for _ in range(chance.randrange(1, 5))]
                records = [Record(key, chance.choice([b"v", None]), TIME_MS) for key in keys]
                if chance.random() < 0.5:
                    log.append(records)
                else:
                    log.append(records, producer_id=1, producer_epoch=0, sequence=sequence, transactional=True)
                    log.append_end_marker(1, 0, commit=chance.random() < 0.7)
                    sequence += len(records)
                marks.append(mark_of(path))
            log.roll()
            log.compact(now_ms=TIME_MS + turn * 10_000_000)
    with PartitionSnapshot(path) as partition:
        headers = [header for segment in partition.segments for header in segment.log.headers()]
        assert len(headers) < len(marks), "it has compacted something"
        assert [mark.difference(partition) for mark in marks] == [None] * len(marks)


def test_other_records_of_the_same_offsets_make_another_log(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Log.open(str(tmp_path / name / "t-0")) as log:
            log.append([Record(b"k", name.encode(), TIME_MS)])
    mark = mark_of(str(tmp_path / "a" / "t-0"))
    with PartitionSnapshot(str(tmp_path / "b" / "t-0")) as partition:
        found = mark.difference(partition)
    assert found is not None
    assert found.is_another
