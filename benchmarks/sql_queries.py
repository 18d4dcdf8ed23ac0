"""`logdex sql` beside the scan kernel, and beside DuckDB on the same columns as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import stores
from benchmarks.measure import judged, summary, timed
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig

COUNT_BY_TOPIC = "SELECT topic, count(*) FROM messages GROUP BY topic"
OF_KERNEL_BAR, OF_PARQUET_BAR = 0.6, 1.5
QUERIES = {
    "count by topic": COUNT_BY_TOPIC,
    "count": "SELECT count(*) FROM messages",
    "sum of lengths by queue": "SELECT queue_id, sum(octet_length(body)) FROM messages GROUP BY queue_id",
}


def queries(data: Path, repeats: int, name: str = "1k") -> list[dict[str, Any]]:
    """GB/s of CommitLog. `ratio` is to the scan kernel without CRCs, `times` how many times as long
    as DuckDB takes on a Parquet file without bodies."""
    root = stores.ensure(stores.SPECS[name], data)
    stores.read_in(root)
    log = CommitLog(str(root / "commitlog"))
    scanner = Scanner(StoreConfig(), check_crc=False)

    def scan() -> None:
        for _ in scanner.scan(log):
            pass

    timed(scan, 1)
    kernel = timed(scan, repeats)
    assert scanner.end is not None
    size_bytes = scanner.end.offset - log.min_offset
    rows = [{"what": f"sql {name}, the scan kernel alone", **summary(kernel), "gb_per_s": _rate(size_bytes, kernel)}]
    parquet = data / f"sql-{name}.parquet"
    exported = _parquet_seconds(root, parquet, repeats)
    in_memory = _arrow_seconds(parquet, repeats)
    told = {"what": f"sql {name}, DuckDB on the topics as Arrow in memory, in times of Parquet"}
    rows.append({**told, **summary(in_memory), "times": round(min(in_memory) / min(exported), 1)})
    first = timed(lambda: _log_seconds(root, COUNT_BY_TOPIC, 0), repeats)
    told = {"what": f"sql {name}, count by topic, the first query of a session"}
    rows.append(judged({**told, **summary(first)}, "ratio", min(kernel) / min(first), OF_KERNEL_BAR))
    for what, query in QUERIES.items():
        seconds = _log_seconds(root, query, repeats)
        row = {"what": f"sql {name}, {what}", **summary(seconds), "gb_per_s": _rate(size_bytes, seconds)}
        ratio = min(kernel) / min(seconds)
        if query == COUNT_BY_TOPIC:
            rows.append({**row, "ratio": round(ratio, 2)})
            against = {"what": f"sql {name}, {what}, in times of DuckDB on Parquet"}
            row = judged(against, "times", min(seconds) / min(exported), OF_PARQUET_BAR, at_most=True)
        else:
            row["ratio"] = round(ratio, 2)
        rows.append(row)
    return rows


def _rate(size_bytes: int, seconds: list[float]) -> float:
    return round(size_bytes / 1e9 / min(seconds), 2)


def _log_seconds(root: Path, query: str, repeats: int) -> list[float]:
    from logdex.sql import connect

    with connect(str(root)) as session:

        def run() -> None:
            assert sum(len(batch) for batch in session.batches(query))

        timed(run, 1)
        return timed(run, repeats)


def _parquet_seconds(root: Path, path: Path, repeats: int) -> list[float]:
    """DuckDB on what a query for all columns but the body gives, as a Parquet file."""
    import duckdb

    from logdex.sql import connect

    if not path.exists():
        with connect(str(root)) as session:
            session.connection.execute(f"COPY (SELECT * EXCLUDE (body) FROM messages) TO '{path}' (FORMAT parquet)")
    return _duckdb_seconds(duckdb.connect(":memory:"), COUNT_BY_TOPIC.replace("messages", f"'{path}'"), repeats)


def _arrow_seconds(path: Path, repeats: int) -> list[float]:
    """DuckDB on the column that the query needs, as Arrow in memory: the least that a table costs
    that DuckDB does not know itself, however fast its source is."""
    import duckdb
    import pyarrow.parquet as pq

    connection = duckdb.connect(":memory:")
    connection.register("messages", pq.read_table(path, columns=["topic"], read_dictionary=["topic"]))
    return _duckdb_seconds(connection, COUNT_BY_TOPIC, repeats)


def _duckdb_seconds(connection: Any, query: str, repeats: int) -> list[float]:
    def run() -> None:
        connection.execute(query).fetchall()

    timed(run, 1)
    return timed(run, repeats)
