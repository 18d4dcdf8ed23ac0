"""Run as a program: writers of one Kafka log, each killed with SIGKILL at a random moment, the log
checked after each.

python -m tests.crash.kafka.killed_writers DIRECTORY ROUNDS SEED
"""

from __future__ import annotations

import random
import sys
from functools import partial

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from tests.crash.killed import kill_writers, tell

CONFIG = LogConfig(segment_bytes=6000, segment_index_bytes=1200, index_interval_bytes=200, flush="sync")


def write(path: str, pipe: int, seed: int) -> None:
    """Appends until it is killed; tells the pipe what was acknowledged: the offset behind it."""
    chance = random.Random(seed)
    log = Log.open(path, CONFIG)
    tell(pipe, log.log_end_offset)
    while True:
        first = log.log_end_offset
        records = [Record(value=f"{first + at}".encode() * chance.randint(1, 30)) for at in range(chance.randint(1, 5))]
        kind = chance.random()
        if kind < 0.2:
            log.append(records, producer_id=1, producer_epoch=0, compression="lz4")
        elif kind < 0.25:
            log.roll()
        elif kind < 0.3:
            log.flush()
        else:
            log.append(records, compression=chance.choice(("none", "zstd")))
        tell(pipe, log.log_end_offset)


def warm_up(path: str) -> None:
    """Loads the kernels, which forked writers then have."""
    with Log.open(path, CONFIG) as log:
        for codec in ("none", "lz4", "zstd"):
            log.append(Record(value=b"x" * 300), compression=codec, producer_id=1, producer_epoch=0)


def check(path: str, known: int) -> int:
    """Requires what was acknowledged, and every record with its own value. Returns the log end
    offset."""
    with Log.open(path, CONFIG) as log:
        assert log.log_end_offset >= known, (log.log_end_offset, known)
        offset = -1
        for offset, record in enumerate(log.records()):
            assert record.offset == offset
            text = str(offset).encode()
            assert record.value == text * (len(record.value or b"") // len(text))
        assert offset + 1 == log.log_end_offset
        return log.log_end_offset


def main(path: str, rounds: int, seed: int) -> None:
    """Raises `AssertionError` where something is missing, wrong or cannot be gone on with."""
    warm_up(f"{path}1")
    print(kill_writers(partial(write, path), partial(check, path), rounds, seed))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
