"""The Spark sources on local[2], without Spark's start: `rocketmq_store`, and `kafka_log` beside
Spark's own `kafka` source on the same log directory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import kafka_data, kafka_peer, stores
from benchmarks.measure import Rates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODECS = ("none", "lz4")
PEER_COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType"
"""The columns of Spark's own source."""
PEER_RECORDS = 5_000_000


def _works(frame: DataFrame, payload: str) -> dict[str, Callable[[], object]]:
    return {
        "count": frame.count,
        "noop": lambda: frame.write.format("noop").mode("overwrite").save(),
        "sumLength": lambda: frame.selectExpr(f"sum(length({payload}))").collect(),
    }


def _session() -> Any:
    from logdex.spark.session import session

    return session("local[2]", app_name="logdex bench", conf={"spark.driver.memory": "3g"})


def rocketmq_source(data: Path, repeats: int, name: str = "1k") -> list[dict[str, Any]]:
    """GB/s of CommitLog: all columns, and the body alone."""
    spec = stores.SPECS[name]
    root = stores.ensure(spec, data)
    stores.read_in(root)
    rows = []
    with _session() as spark:
        for columns in (None, "body"):
            reader = spark.read.format("rocketmq_store")
            frame = (reader if columns is None else reader.option("columns", columns)).load(str(root))
            size_bytes = spec.messages * spec.body
            for work, call in _works(frame, "body").items():
                rates = Rates(
                    f"rocketmq_store {name}, {columns or 'all columns'}, {work}, GB/s of bodies", size_bytes, call
                )
                rates.measure(repeats)
                rows.append({"what": rates.what, **rates.summary(1e9)})
    return rows


def kafka_source(data: Path, repeats: int, records: int = kafka_data.RECORDS) -> list[dict[str, Any]]:
    """Millions of records per second, for each codec; `ratio` is to Spark's own source where that
    can run."""
    peer = _peer(data / "spark-kafka", repeats)
    paths = {codec: str(data / "spark-kafka" if peer else kafka_data.ensure(data, codec, records)) for codec in CODECS}
    rows: list[dict[str, Any]] = []
    with _session() as spark:
        for codec, path in paths.items():
            topic = f"bench_{codec}" if peer else f"bench-{codec}"
            rows += _measured(spark, path, topic, codec, repeats, peer.get(topic, {}))
    return rows


def _measured(
    spark: SparkSession, path: str, topic: str, codec: str, repeats: int, peer: dict[str, float]
) -> list[dict[str, Any]]:
    frame = spark.read.format("kafka_log").options(subscribe=topic, columns=PEER_COLUMNS).load(path)
    count, rows = frame.count(), []
    for work, call in _works(frame, "value").items():
        rates = Rates(f"kafka_log {codec}, {work}, M records/s", count, call)
        rates.measure(repeats)
        row: dict[str, Any] = {"what": rates.what, **rates.summary(1e6)}
        theirs = peer.get(f"{work}RecordsPerSecond")
        if theirs:
            row |= {"sparks_own": round(theirs / 1e6, 3), "ratio": round(rates.median / theirs, 2)}
        rows.append(row)
    return rows


def _peer(directory: Path, repeats: int) -> dict[str, dict[str, float]]:
    """What Spark's own source reads from a real broker on `directory`, by topic; nothing where it
    cannot run. The directory is made if it is missing."""
    script = kafka_peer.PEERS / "kafka" / "spark_kafka_source.py"
    if kafka_peer.why_missing() is not None or not script.is_file():
        return {}
    command = [sys.executable, str(script), "--dir", str(directory), "--records", str(PEER_RECORDS)]
    done = subprocess.run(
        [*command, "--codecs", ",".join(CODECS), "--repeats", str(repeats)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(f"  Spark's own source did not run: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    found: dict[str, dict[str, float]] = json.loads(done.stdout)["topics"]
    return found
