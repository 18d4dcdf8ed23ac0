"""The Spark sources on local[2], without Spark's start: `rocketmq_store`, and `kafka_log` beside
Spark's own `kafka` source on the same log directory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import kafka_data, kafka_peer, stores
from benchmarks.measure import Rates, judged, remove
from benchmarks.sparks_own_source import SCRIPT, SETTINGS, works
from logdex.convert.export import export
from logdex.convert.sources.kafka import LogDirSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CODECS = ("none", "lz4")
PEER_COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType"
"""The columns of Spark's own source."""
PEER_RECORDS = 5_000_000
WARM_S = 10.0
"""How long ours warms up per work: as long as the two runs of Spark's own source that are not
counted. Java compiles the code for rows meanwhile."""

RATIO_BARS = {"none": 5.0, "lz4": 4.0}
"""How many times as fast as Spark's own source, by codec."""
BODIES_BAR_GB_S = 2.0


def _session() -> Any:
    from logdex.spark.session import session

    return session("local[2]", app_name="logdex bench", conf=SETTINGS)


def rocketmq_source(data: Path, repeats: int, name: str = "1k", large: str = "8g") -> list[dict[str, Any]]:
    """GB/s of bodies: with all columns, and of a larger store, beside whose time that of starting a
    job is little, the body alone."""
    rows = []
    with _session() as spark:
        for columns, spec in ((None, stores.SPECS[name]), ("body", stores.SPECS[large])):
            root = stores.ensure(spec, data)
            stores.read_in(root)
            reader = spark.read.format("rocketmq_store")
            frame = (reader if columns is None else reader.option("columns", columns)).load(str(root))
            size_bytes = spec.messages * spec.body
            for work, call in works(frame, "body", data / "out").items():
                if (columns, work) == ("body", "parquet"):
                    continue  # its time is that of Spark's own writer
                what = f"rocketmq_store {spec.name}, {columns or 'all columns'}, {work}, GB/s of bodies"
                rates = Rates(what, size_bytes, call, warm_s=WARM_S)
                rates.measure(repeats)
                row: dict[str, Any] = {"what": rates.what, **rates.summary(1e9)}
                if (columns, work) == ("body", "noop"):
                    row = judged(row, "median", rates.median / 1e9, BODIES_BAR_GB_S)
                rows.append(row)
    remove(data / "out")
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
    output = Path(path).parent / "out"
    for work, call in works(frame, "value", output).items():
        rates = Rates(f"kafka_log {codec}, {work}, M records/s", count, call, warm_s=WARM_S)
        rates.measure(repeats)
        rows.append(_beside(rates, peer.get(work), codec))
    exported = _exporting(spark, LogDirSource(path, topic=topic), output, f"kafka_log {codec}, parquet by export")
    exported.measure(repeats)
    rows.append(_beside(exported, peer.get("parquet"), codec))
    rows.append(_from_memory(frame, codec, output, repeats))
    remove(output)
    return rows


def _beside(rates: Rates, theirs: float | None, codec: str) -> dict[str, Any]:
    """The row of some rates, with its ratio to those of Spark's own source, if there are any."""
    row: dict[str, Any] = {"what": rates.what, **rates.summary(1e6)}
    if not theirs:
        return row
    return judged(row | {"sparks_own": round(theirs / 1e6, 3)}, "ratio", rates.median / theirs, RATIO_BARS[codec])


def _exporting(spark: SparkSession, source: LogDirSource, output: Path, what: str) -> Rates:
    """Parquet with Spark's default codec, of the same records, which the tasks of `logdex export
    --engine spark` write: no row passes through Java."""
    from logdex.spark.tasks import runner_of

    runner = runner_of(spark)

    def run() -> int:
        remove(output)
        return export(source, output, runner, engine="spark", codec="snappy", sync=False).messages

    return Rates(f"{what}, M records/s", run(), run, warm_s=WARM_S)


def _from_memory(frame: DataFrame, codec: str, output: Path, repeats: int) -> dict[str, Any]:
    """The same rows from Spark's memory to Parquet: about the most that a source can reach."""
    count = frame.persist().count()
    what = f"the same rows from Spark's memory, {codec}, parquet, M records/s"
    rates = Rates(what, count, works(frame, "value", output)["parquet"], warm_s=WARM_S)
    rates.measure(repeats)
    frame.unpersist(blocking=True)
    return {"what": rates.what, **rates.summary(1e6)}


def _peer(directory: Path, repeats: int) -> dict[str, dict[str, float]]:
    """What Spark's own source reads from a real broker on `directory`, by topic; nothing where it
    cannot run. The directory is made if it is missing."""
    if kafka_peer.why_missing() is not None or not SCRIPT.is_file():
        return {}
    command = [sys.executable, "-m", "benchmarks.sparks_own_source", str(directory), str(PEER_RECORDS)]
    done = subprocess.run([*command, ",".join(CODECS), str(repeats)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"  Spark's own source did not run: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return {}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]  # the broker's maker prints, too
    found: dict[str, dict[str, float]] = json.loads(lines[-1])
    return found
