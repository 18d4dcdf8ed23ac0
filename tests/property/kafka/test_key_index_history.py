"""Key indexes beside logs that change: whatever happens to a log, queries answer as a scan does.

The indexes lie in another directory, where nobody removes them, and are built at any time.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from logdex.kafka.batch.record import Record
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.examples import cases

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, cleanup_policy=("compact",), retention_ms=-1)
KEYS = [b"key-%d" % number for number in range(4)]
NOW_MS = 1_700_000_000_000


def offsets(path: Path, indexes: Path) -> dict[bytes, list[int]]:
    with PartitionSnapshot(str(path)) as snapshot:
        return {key: [each.offset for each in snapshot.query(key, key_index_dir=str(indexes))] for key in KEYS}


def change(log: Log, draw: random.Random) -> None:
    end = log.log_end_offset
    match draw.choice(["append"] * 6 + ["cut"] * 2 + ["compact", "roll", "delete"]):
        case "append":
            for _ in range(draw.randint(1, 6)):
                log.append([Record(draw.choice(KEYS), bytes(80), NOW_MS) for _ in range(draw.randint(1, 3))])
        case "cut":
            log.truncate_to(max(0, end - draw.randint(1, 8)))
        case "compact":
            log.compact()
        case "roll":
            log.roll()
        case "delete":
            log.delete_records(draw.randint(log.log_start_offset, end))


@pytest.mark.parametrize("seed", cases(range(9, 40), 31))
def test_any_history(seed: int, tmp_path: Path) -> None:
    path, beside, elsewhere, none = (tmp_path / name for name in ("events-0", "events-0", "indexes", "none"))
    elsewhere.mkdir()
    none.mkdir()
    draw = random.Random(seed)
    with Log.open(str(path), CONFIG) as log:
        for _ in range(40):
            change(log, draw)
            if draw.random() < 0.4:
                segment = draw.choice(log.segments)
                raw = build_key_index(segment.log.path).tobytes()
                for folder in (beside, elsewhere):
                    (folder / f"{segment.base_offset:020d}.keyindex").write_bytes(raw)
            if draw.random() < 0.5:
                continue
            expected = offsets(path, none)
            assert offsets(path, beside) == expected
            assert offsets(path, elsewhere) == expected
