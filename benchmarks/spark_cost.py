"""How the cost of jobs grows with the data: 0.5 to 8 GiB of a store, on one core and on two, on
Spark (without its start) and in one process with as many threads; and a line through the points of
each kind of work, from which the time for larger data is reckoned."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import stores
from benchmarks.measure import remove, summary, timed
from logdex.jobs.tasks import LocalRunner
from logdex.rocketmq.commit_log.commit_log import CommitLog, CommitLogFile
from logdex.rocketmq.rebuild.job import rebuild_on
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = dict[str, Any]

GIB = 1 << 30
SIZES = tuple(size * GIB // 2 for size in (1, 2, 4, 8, 16))
CORES = (1, 2)


def curve(data: Path, repeats: int, name: str = "8g", sizes: tuple[int, ...] = SIZES) -> Iterator[Row]:
    """Seconds by work, cores and size in bytes, and at the end the line of each work: its seconds
    for no data, and per GiB. A smaller log is the beginning of that of the store `name`."""
    from logdex.spark.session import COORDINATING, session

    whole, output = stores.ensure(stores.SPECS[name], data), data / "out"
    roots = [_beginning(whole, data / f"cost-{size}", size) for size in sizes]
    points: dict[str, list[tuple[float, float]]] = {}
    for cores in CORES:
        with session(f"local[{cores}]", app_name="logdex bench", conf=COORDINATING) as spark:
            for work, run in _works(spark, cores, output).items():
                what = f"{work}, {cores} {'cores' if cores > 1 else 'core'}"
                for size, root in zip(sizes, roots, strict=True):
                    stores.read_in(root)
                    found = summary(timed(partial(run, root), repeats + 1, partial(remove, output))[1:])
                    points.setdefault(what, []).append((size / GIB, found["best_s"]))
                    yield {"what": f"{what}, {size / GIB:g} GiB", **found}
    for what, some in points.items():
        gib, seconds = np.array(some).T
        per_gib, fixed = np.polyfit(gib, seconds, 1)
        yield {"what": f"{what}: a line", "fixed_s": round(fixed, 2), "s_per_gib": round(per_gib, 3)}
    for path in (*roots, output):
        remove(path)


def _works(spark: SparkSession, cores: int, output: Path) -> dict[str, Callable[[Path], object]]:
    """What is measured, by name."""
    import logdex.spark

    logdex.spark.register(spark)

    def frame(root: Path, columns: str) -> DataFrame:
        return spark.read.format("rocketmq_store").option("columns", columns).load(str(root))

    def count_by_topic(root: Path) -> None:
        frame(root, "topic").groupBy("topic").count().collect()

    def bodies(root: Path) -> None:
        frame(root, "body").write.format("noop").mode("overwrite").save()

    def rebuild(root: Path) -> None:
        logdex.spark.rebuild(spark, str(root), str(output))

    def rebuild_in_threads(root: Path) -> None:
        rebuild_on(LocalRunner(jobs=cores), str(root), str(output), StoreConfig())

    return {
        "count by topic on Spark": count_by_topic,
        "bodies to Spark": bodies,
        "rebuild on Spark": rebuild,
        "rebuild in one process": rebuild_in_threads,
    }


def _beginning(whole: Path, target: Path, size_bytes: int) -> Path:
    """A store with the beginning of another's log: links to whole files, and of the last file the
    messages that begin within the size."""
    remove(target)
    (target / "commitlog").mkdir(parents=True)
    for file in CommitLog(str(whole / "commitlog")).files:
        left = size_bytes - file.start_offset
        copy = target / "commitlog" / Path(file.path).name
        if left >= file.size_bytes:
            os.link(file.path, copy)
        elif left > 0:
            _copy_messages(file, copy, left)
    return target


def _copy_messages(file: CommitLogFile, copy: Path, size_bytes: int) -> None:
    scanner = Scanner(StoreConfig(), check_crc=False)
    for _ in scanner.scan_file(file, 0, size_bytes):
        pass
    left = scanner.stopped_at
    with Path(file.path).open("rb") as read, copy.open("wb") as written:
        while left:
            left -= written.write(read.read(min(left, 1 << 20)))
        written.truncate(file.size_bytes)
