"""Spark's own `kafka` source on the topics of a real broker, in a process of its own: records per
second of the works that `spark_sources.py` measures of ours. The broker, the data and the jars are
those of the peers' spark_kafka_source.py."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from benchmarks import kafka_peer
from benchmarks.measure import remove, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

JAVA_OPTIONS = (
    "-XX:+UseParallelGC",
    "-Darrow.enable_unsafe_memory_access=true",
    "-Darrow.enable_null_check_for_get=false",
)
"""Rows are short-lived, and this collector takes less time for them. Spark asks for the length and
for nulls itself, so that Arrow does not have to check each value again."""
SETTINGS = {"spark.driver.memory": "3g", "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS)}
"""Settings of both sides."""
SCRIPT = kafka_peer.PEERS / "kafka" / "spark_kafka_source.py"


def works(frame: DataFrame, payload: str, output: Path) -> dict[str, Callable[[], object]]:
    """What is measured of a source, by name."""
    return {
        "count": frame.count,
        "noop": lambda: frame.write.format("noop").mode("overwrite").save(),
        "sumLength": lambda: frame.selectExpr(f"sum(length({payload}))").collect(),
        "parquet": lambda: frame.write.mode("overwrite").parquet(str(output)),
    }


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("spark_kafka_source", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def _broker(directory: Path) -> Iterator[str]:
    """A broker that serves a log directory; its address."""
    command = [str(kafka_peer.ENGINE), "RunBroker", "--dir", str(directory), "--serve"]
    environ = {**os.environ, "JAVA_OPTS": "-Xmx2g", "LOGDEX_LOG": "error"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["address"]
        process.stdin.close()
        process.stdout.read()


def main(directory: Path, records: int, codecs: list[str], repeats: int) -> dict[str, dict[str, float]]:
    """Records per second by topic and work: the median of the repeats behind two first runs."""
    import pyspark

    from logdex.spark.session import session

    script = _script()
    if not (directory / "meta.properties").exists():
        script.make(str(directory), records, codecs)
    conf = {**SETTINGS, "spark.jars": ",".join(script.source_jars(pyspark.__version__))}
    found: dict[str, dict[str, float]] = {}
    output = directory.parent / "out"
    with _broker(directory) as address, session("local[2]", app_name="logdex bench peer", conf=conf) as spark:
        for codec in codecs:
            reader = spark.read.format("kafka").option("kafka.bootstrap.servers", address)
            frame = reader.option("subscribe", f"bench_{codec}").option("startingOffsets", "earliest").load()
            count = frame.count()
            for work, call in works(frame, "value", output).items():
                timed(call, 2)
                rates = [count / seconds for seconds in timed(call, repeats)]
                found.setdefault(f"bench_{codec}", {})[work] = statistics.median(rates)
    remove(output)
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3].split(","), int(sys.argv[4]))))
