"""Run as a program: writers of one Kafka log, each killed with SIGKILL at a random moment, the log checked after each.

    python -m tests.crash.kafka.killed_writers DIRECTORY ROUNDS SEED

Forks: a process of its own, without threads, keeps that simple and quick.
"""

from __future__ import annotations

import os
import random
import select
import signal
import struct
import sys
import time

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=6000, segment_index_bytes=1200, index_interval_bytes=200, flush="sync")


def write(path: str, pipe: int, seed: int) -> None:
    """Appends until it is killed; tells the pipe what was acknowledged: the offset behind it."""
    chance = random.Random(seed)
    log = Log.open(path, CONFIG)
    os.write(pipe, struct.pack(">q", log.log_end_offset))
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
        os.write(pipe, struct.pack(">q", log.log_end_offset))


def acknowledged(pipe: int) -> int:
    """The last offset that the pipe tells of, once its writer is gone; -1 for none."""
    last = -1
    while len(data := os.read(pipe, 8)) == 8:
        (last,) = struct.unpack(">q", data)
    return last


def warm_up(path: str) -> None:
    """Loads the kernels, which forked writers then have."""
    with Log.open(path, CONFIG) as log:
        for codec in ("none", "lz4", "zstd"):
            log.append(Record(value=b"x" * 300), compression=codec, producer_id=1, producer_epoch=0)


def main(path: str, rounds: int, seed: int) -> None:
    """Raises `AssertionError` where something is missing, wrong or cannot be gone on with."""
    chance = random.Random(seed)
    warm_up(f"{path}1")
    known = 0
    for number in range(rounds):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            try:
                write(path, writer, seed * 1000 + number)
            finally:
                os._exit(3)
        os.close(writer)
        if chance.random() < 0.8:  # else it may be killed while it opens the log
            select.select([reader], [], [], 20)
        time.sleep(chance.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"round {number}: the writer ended by itself ({status})"
        known = max(known, acknowledged(reader))
        os.close(reader)
        with Log.open(path, CONFIG) as log:
            assert log.log_end_offset >= known, (number, log.log_end_offset, known)
            offset = -1
            for offset, record in enumerate(log.records()):
                assert record.offset == offset
                text = str(offset).encode()
                assert record.value == text * (len(record.value or b"") // len(text))
            assert offset + 1 == log.log_end_offset
            known = log.log_end_offset
    print(known)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
