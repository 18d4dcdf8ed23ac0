"""What a second thread (`--jobs 2`) gives a rebuild: ratios of one run, without a peer, because a
broker has no such option."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import kafka_data, stores
from benchmarks.measure import in_turns, remove
from logdex.jobs.tasks import LocalRunner
from logdex.kafka.rebuild import rebuild as kafka_rebuild
from logdex.kafka.rebuild import rebuild_on as kafka_rebuild_on
from logdex.kafka.rebuild import rebuild_settings
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.job import rebuild_on
from logdex.rocketmq.settings.store_config import StoreConfig

Row = dict[str, Any]

TWO_CORES_BAR = 1.6
PARTITIONS = 16
RECORDS = 5_000_000
"""Of each partition, so that all have 8 GiB together."""


def rebuilding(data: Path, repeats: int, name: str = "8g", records: int = RECORDS) -> Iterator[Row]:
    """Rebuilds with --jobs 2 against one thread, without fsync."""
    config, output = StoreConfig(), data / "out"
    root = stores.ensure(stores.SPECS[name], data)
    stores.read_in(root)

    def with_two() -> None:
        rebuild_on(LocalRunner(jobs=2), str(root), str(output), config, sync=False)

    one = partial(rebuild, str(root), str(output), config, sync=False)
    yield in_turns(f"rebuild {name} in 2 threads", with_two, one, repeats, TWO_CORES_BAR, lambda: remove(output))
    remove(output)
    logs = _log_directory(data / "kafka-many", records)

    settings = rebuild_settings(None, key_index=False, sync=False)

    def kafka_with_two() -> None:
        kafka_rebuild_on(LocalRunner(jobs=2), str(logs), str(output), settings)

    what = f"rebuild {PARTITIONS} partitions in 2 threads"
    kafka_one = partial(kafka_rebuild, str(logs), str(output), sync=False)
    yield in_turns(what, kafka_with_two, kafka_one, repeats, TWO_CORES_BAR, lambda: remove(output))
    remove(output)
    remove(logs)


def _log_directory(data: Path, records: int) -> Path:
    """A log directory whose partitions are links to one."""
    partition, logs = kafka_data.ensure(data, "none", records), data / "many"
    remove(logs)
    for number in range(PARTITIONS):
        folder = logs / f"bench-{number}"
        folder.mkdir(parents=True)
        os.link(partition / kafka_data.LOG_NAME, folder / kafka_data.LOG_NAME)
    return logs
