"""Writes, rolls, and retains or compacts a partition until it is killed: busy_writer.py PATH
retain|compact|keep"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig

NOW_MS = 1_700_000_000_000


def write(path: str, kind: str, is_over: Callable[[], bool] = lambda: False) -> None:
    """Writes until `is_over`. Records have their offset as their value."""
    draw = random.Random(1)
    config = LogConfig(
        segment_bytes=3000,
        index_interval_bytes=200,
        cleanup_policy=("compact",) if kind == "compact" else ("delete",),
        retention_ms=-1,
        retention_bytes=30_000 if kind == "retain" else -1,
    )
    with Log.open(path, config) as log:
        while not is_over():
            for _ in range(draw.randint(1, 12)):
                at = log.log_end_offset
                log.append(
                    [
                        Record(b"k%d" % draw.randrange(8), b"%d" % place, NOW_MS + place)
                        for place in range(at, at + draw.randint(1, 5))
                    ]
                )
                if draw.random() < 0.1:
                    with log.transaction(draw.randrange(3)) as transaction:
                        at = log.log_end_offset
                        transaction.append([Record(b"t", b"%d" % at, NOW_MS + at)])
                        if draw.random() < 0.5:
                            transaction.abort()
            if kind == "retain":
                log.apply_retention()
            elif kind == "compact" and draw.random() < 0.3:
                log.compact()
            if draw.random() < 0.2:
                log.roll()
            time.sleep(0.01)


if __name__ == "__main__":
    write(sys.argv[1], sys.argv[2])
