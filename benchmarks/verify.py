"""`verify` against the rebuild and the scan of the same logs: ratios of one run, without a peer,
because no broker has a `verify`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import kafka_data, stores
from benchmarks.measure import Work, in_turns, remove
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.verify import verify as kafka_verify
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig
from logdex.rocketmq.verify import verify

Row = dict[str, Any]

OF_REBUILD_BAR = 0.3
OF_SCAN_BAR = 0.5


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
