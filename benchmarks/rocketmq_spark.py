"""The Spark job on local[2], without Spark's start, against one core in one process; both sync."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks import stores
from benchmarks.measure import AnonymousMemory, remove, summary, timed
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.settings.store_config import StoreConfig


def rebuild_on_spark(names: list[str], data: Path, repeats: int) -> list[dict[str, Any]]:
    """For each store: Spark and one core in turn, after a warm-up of each."""
    import logdex.spark
    from logdex.spark.session import COORDINATING, session

    rows, output = [], data / "out"
    with session("local[2]", app_name="logdex bench", conf=COORDINATING) as spark:
        for name in names:
            root = stores.ensure(stores.SPECS[name], data)
            stores.read_in(root)

            def on_spark(root: Path = root) -> None:
                logdex.spark.rebuild(spark, str(root), str(output))

            def on_one_core(root: Path = root) -> None:
                rebuild(str(root), str(output), StoreConfig())

            seconds: dict[str, list[float]] = {"spark": [], "local": []}
            with AnonymousMemory(os.getpid()) as memory:
                for number in range(repeats + 1):
                    for key, run in (("spark", on_spark), ("local", on_one_core)):
                        took = timed(run, 1, lambda: remove(output))
                        seconds[key] += took if number else []
            remove(output)
            spark_s, local_s = summary(seconds["spark"]), summary(seconds["local"])
            rows.append(
                {
                    "what": f"rebuild {name}, local[2] / one core, fsync",
                    **spark_s,
                    "one_core_best_s": local_s["best_s"],
                    "one_core_median_s": local_s["median_s"],
                    "ratio_best": round(local_s["best_s"] / spark_s["best_s"], 2),
                    "ratio_median": round(local_s["median_s"] / spark_s["median_s"], 2),
                    "peak_anonymous_mib": memory.peak_bytes >> 20,
                }
            )
    return rows
