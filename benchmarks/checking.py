"""`verify` against the rebuild and the scan of the same logs, and what a second thread gives a
rebuild: ratios of one run, without a peer, because no broker has either."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import kafka_data, stores
from benchmarks.measure import remove, summary, timed
from logdex.jobs.tasks import LocalRunner
from logdex.kafka.rebuild import rebuild as kafka_rebuild
from logdex.kafka.rebuild import rebuild_on as kafka_rebuild_on
from logdex.kafka.rebuild import rebuild_settings
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.verify import verify as kafka_verify
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.rebuild.job import rebuild_on
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify

Row = dict[str, Any]
Work = Callable[[], object]

OF_REBUILD_BAR = 0.3
OF_SCAN_BAR = 0.5
TWO_CORES_BAR = 1.6
PARTITIONS = 16


def in_turns(what: str, ours: Work, other: Work, repeats: int, bar: float, fresh: Work = lambda: None) -> Row:
    """Measures two kinds of work in turns. The ratio is how many times as fast ours is, of the best
    runs."""
    mine, theirs = list[float](), list[float]()
    for number in range(repeats + 1):
        found = timed(ours, 1, fresh), timed(other, 1, fresh)
        if number:  # the first ones fill caches
            mine += found[0]
            theirs += found[1]
    ratio = round(min(theirs) / min(mine), 2)
    row = {"what": what, **summary(mine), "other_best_s": round(min(theirs), 4), "ratio": ratio}
    return row | {"bar": bar, "met": "yes" if ratio >= bar else "NO"}


def verifying(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> Iterator[Row]:
    """`verify` of stores and of a partition, against their rebuild or a scan with CRCs."""
    config, output = StoreConfig(), data / "out"
    for name, against in (("100b", "the rebuild"), ("1k", "the scan")):
        root = stores.ensure(stores.SPECS[name], data)
        stores.read_in(root)
        check = partial(_sound, partial(verify, str(root), config))
        other: Work = partial(_scan, root, config)
        bar = OF_SCAN_BAR
        if against == "the rebuild":
            other, bar = partial(rebuild, str(root), str(output), config, sync=False), OF_REBUILD_BAR
        yield in_turns(f"verify {name} against {against}", check, other, repeats, bar, lambda: remove(output))
        remove(output)
    for codec in ("none", "zstd"):
        partition = kafka_data.ensure(data / "kafka", codec, records)
        check = partial(_sound, partial(kafka_verify, str(partition)))
        other = partial(_scan_records, partition)
        yield in_turns(f"verify Kafka {codec} against the scan", check, other, repeats, OF_SCAN_BAR)


def two_threads(data: Path, repeats: int, name: str = "8g", records: int = kafka_data.RECORDS) -> Iterator[Row]:
    """Rebuilds with --jobs 2 against one thread, without fsync."""
    config, output = StoreConfig(), data / "out"
    root = stores.ensure(stores.SPECS[name], data)
    stores.read_in(root)

    def with_two() -> None:
        rebuild_on(LocalRunner(jobs=2), str(root), str(output), config, sync=False)

    one = partial(rebuild, str(root), str(output), config, sync=False)
    yield in_turns(f"rebuild {name} in 2 threads", with_two, one, repeats, TWO_CORES_BAR, lambda: remove(output))
    remove(output)
    logs = _log_directory(data / "kafka", records)

    settings = rebuild_settings(None, key_index=False, sync=False)

    def kafka_with_two() -> None:
        kafka_rebuild_on(LocalRunner(jobs=2), str(logs), str(output), settings)

    what = f"rebuild {PARTITIONS} partitions in 2 threads"
    kafka_one = partial(kafka_rebuild, str(logs), str(output), sync=False)
    yield in_turns(what, kafka_with_two, kafka_one, repeats, TWO_CORES_BAR, lambda: remove(output))
    remove(output)
    remove(logs)


def _sound(check: Callable[[], Any]) -> None:
    report = check()
    assert report.is_sound, report.findings


def _scan(root: Path, config: StoreConfig) -> None:
    for _ in Scanner(config).scan(CommitLog(str(root / "commitlog"))):
        pass


def _scan_records(partition: Path) -> None:
    """Reads all columns of all records, as `verify` must: what it checks lies in the records."""
    with open_kafka(str(partition)) as snapshot:
        for _ in snapshot.scan().to_arrow():
            pass


def _log_directory(data: Path, records: int) -> Path:
    """A log directory whose partitions are links to one."""
    partition, logs = kafka_data.ensure(data, "none", records), data / "many"
    remove(logs)
    for number in range(PARTITIONS):
        folder = logs / f"bench-{number}"
        folder.mkdir(parents=True)
        os.link(partition / kafka_data.LOG_NAME, folder / kafka_data.LOG_NAME)
    return logs
