"""A log directory that grows, and what a dispatch of it must write: the files of a rebuild."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from logdex.kafka.batch.record import Record
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.dispatch.job import LogDispatcher
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.settings.log_config import LogConfig
from tests.directories import contents

NOW_MS = 1_700_000_000_000
INTERVAL = 200


def grow(partition: Path, count: int, seed: int, *, segment_bytes: int = 3000, retention_bytes: int = -1) -> None:
    """Appends batches to a partition, some of them transactions; segments are small, and old ones
    may be removed."""
    chance = random.Random(seed)
    config = LogConfig(
        segment_bytes=segment_bytes, index_interval_bytes=INTERVAL, retention_ms=-1, retention_bytes=retention_bytes
    )
    with Log.open(partition, config) as log:
        for _ in range(count):
            at = log.log_end_offset
            keys = [chance.choice((None, b"k%d" % chance.randrange(9))) for _ in range(chance.randint(1, 5))]
            log.append(
                [Record(key, b"v%d" % chance.randrange(99), NOW_MS + at + place) for place, key in enumerate(keys)]
            )
            if chance.random() < 0.2:
                with log.transaction(chance.randrange(3)) as transaction:
                    transaction.append([Record(b"t", b"%d" % at, NOW_MS + at)])
                    if chance.random() < 0.5:
                        transaction.abort()
        if retention_bytes >= 0:
            log.apply_retention()


def dispatcher(logs: Path, output: Path) -> LogDispatcher:
    return LogDispatcher(require_kafka(str(logs)), output, index_interval_bytes=INTERVAL)


def dispatch(logs: Path, output: Path) -> LogDispatcher:
    """One run, until the end of the logs."""
    with dispatcher(logs, output) as job:
        job.step()
    return job


def derived(directory: Path) -> dict[str, bytes]:
    """The derived files by name, without the journals of a dispatch."""
    found = contents(directory)
    return {str(name): data for name, data in found.items() if not str(name).startswith(".logdex")}


def require_rebuilt(logs: Path, output: Path, folder: Path, *, interval: int | None = INTERVAL) -> None:
    """What was dispatched is what a rebuild with key indexes writes, byte for byte."""
    shutil.rmtree(folder, ignore_errors=True)
    rebuild(str(logs), str(folder), index_interval_bytes=interval, key_index=True, sync=False)
    expected, found = derived(folder), derived(output)
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []
