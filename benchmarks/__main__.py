"""Runs the benchmarks: prints and saves each figure as it is measured, and prints a table at the
end."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from benchmarks import (
    kafka_local,
    kafka_lookups,
    kafka_others,
    kafka_peer,
    kafka_singles,
    peer,
    printing,
    rocketmq_consume,
    rocketmq_index,
    rocketmq_local,
    rocketmq_open,
    rocketmq_others,
    rocketmq_put,
    rocketmq_query,
    rocketmq_spark,
    spark_cost,
    spark_export,
    spark_sources,
    spark_time_line,
    sql_queries,
    starting,
    two_threads,
    verify,
)

ROOT = Path(__file__).resolve().parent.parent
Rows = list[dict[str, Any]]


def suites(data: Path, repeats: int) -> dict[str, Callable[[], Iterable[dict[str, Any]]]]:
    """The functions that measure, by name. They return rows, or yield each as it is measured."""
    return {
        "scan": lambda: [rocketmq_local.full_scan(name, data, repeats) for name in ("1k", "100b")],
        "rebuild-1k": lambda: [rocketmq_local.rebuild_in_process("1k", data, repeats)],
        "rebuild-100b": lambda: [rocketmq_local.rebuild_in_process("100b", data, repeats)],
        "index": lambda: rocketmq_index.index_file(data, repeats),
        "put": lambda: rocketmq_put.puts(data, repeats),
        "consume": lambda: rocketmq_consume.consuming(data, repeats),
        "open": lambda: rocketmq_open.opening(data, repeats),
        "embedded": lambda: rocketmq_others.others(data, repeats),
        "query-hot-key": lambda: rocketmq_query.hot_key(data, repeats),
        "process-4g": lambda: [rocketmq_local.rebuild_whole_process("4g", data, repeats)],
        "spark-4g": lambda: rocketmq_spark.rebuild_on_spark(["4g"], data, repeats),
        "spark-8g": lambda: rocketmq_spark.rebuild_on_spark(["8g"], data, repeats),
        "verify": lambda: verify.verifying(data, repeats),
        "jobs": lambda: two_threads.rebuilding(data, repeats),
        "print": lambda: printing.printing(data, repeats),
        "start": lambda: starting.starting(data, repeats),
        "first-use": lambda: starting.first_uses(data),
        "sql": lambda: sql_queries.queries(data, repeats),
        "sql-8g": lambda: sql_queries.queries(data, repeats, "8g"),
        "spark-source": lambda: spark_sources.rocketmq_source(data, repeats),
        "spark-cost": lambda: spark_cost.curve(data, repeats),
        "spark-time-line": lambda: spark_time_line.time_line(data),
        "export": lambda: spark_export.exporting(data, repeats),
        "key": lambda: spark_export.looking_up(data, repeats),
        "kafka-recover": lambda: kafka_local.recovery(data / "kafka", repeats),
        "kafka-decode": lambda: kafka_local.decoding(data / "kafka", repeats),
        "kafka-append": lambda: kafka_local.appending(data / "kafka", repeats),
        "kafka-single": lambda: kafka_singles.singles(data / "kafka", repeats),
        "kafka-lookup": lambda: kafka_lookups.look_ups(data / "kafka", repeats),
        "kafka-keyindex": lambda: kafka_lookups.key_index(data / "kafka", repeats),
        "kafka-peers": lambda: kafka_others.peers(data / "kafka", repeats),
        "kafka-source": lambda: spark_sources.kafka_source(data / "kafka", repeats),
    }


def expand(only: str, names: list[str]) -> list[str]:
    """The suites that --only selects: names, `all`, or `kafka` for all suites of Kafka."""
    groups = {"all": names, "kafka": [name for name in names if name.startswith("kafka-")]}
    return [name for part in only.split(",") for name in groups.get(part, [part])]


def main() -> None:
    """Entry point of scripts/bench."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description="Measures Logdex and the real engine on the same stores. The stores are created once (up to 16 GB) "
        "and kept below --data. Figures on a shared machine are noisy: read the ratios.",
        epilog="example: scripts/bench --only scan,rebuild-1k",
    )
    names = ",".join(suites(Path(), 1))
    parser.add_argument(
        "--data", type=Path, default=ROOT / "bench-data", help="where the stores are (default: %(default)s)"
    )
    parser.add_argument(
        "--only",
        default="scan,rebuild-1k,rebuild-100b,index",
        help=f"some of {names}; kafka for its eight, or all (default: %(default)s)",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="the JSON file (default: a dated one in bench-results/)")
    options = parser.parse_args()
    wanted = expand(options.only, names.split(","))
    unknown = set(wanted) - set(names.split(","))
    if unknown:
        parser.error(f"no such benchmark: {', '.join(sorted(unknown))}; there are {names}")
    for of_kafka, missing in ((False, peer.why_missing()), (True, kafka_peer.why_missing())):
        if missing and any(name.startswith("kafka-") == of_kafka for name in wanted):
            print(f"bench: {missing}: only our own figures", file=sys.stderr)
    options.data.mkdir(parents=True, exist_ok=True)
    path = options.json or ROOT / "bench-results" / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    rows: Rows = []
    try:
        for row in _measured(wanted, suites(options.data.resolve(), options.repeats)):
            rows.append(row)
            _save(rows, path)
    finally:
        print(f"bench: figures are in {path}", file=sys.stderr)
        _print_table(rows)
    if any("failed" in row for row in rows):
        raise SystemExit(1)


def _measured(wanted: list[str], known: dict[str, Callable[[], Iterable[dict[str, Any]]]]) -> Iterator[dict[str, Any]]:
    """Yields each row as it is measured, and prints it. At a terminal a bar shows how many suites
    are done, and the time left if the others take as long."""
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), redirect_stdout=False) as bar:
        task = bar.add_task("bench", total=len(wanted))
        for name in wanted:
            bar.update(task, description=f"bench: {name}")
            try:
                for row in known[name]():
                    line = "  ".join(f"{key} {value}" for key, value in row.items())
                    bar.console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)
                    yield row
            except Exception as error:  # the other suites go on
                traceback.print_exc()
                yield {"what": name, "failed": repr(error)}
            bar.advance(task)


def _save(rows: Rows, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "system": platform.platform()}
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps({"machine": machine, "rows": rows}, indent=1) + "\n")
    part.replace(path)


def _print_table(rows: Rows) -> None:
    table = Table("what", "figures")
    for row in rows:
        figures = "  ".join(f"{name} [bold]{value}[/bold]" for name, value in row.items() if name != "what")
        table.add_row(row["what"].replace("[", r"\["), figures)
    Console(width=200 if not sys.stdout.isatty() else None).print(table)


if __name__ == "__main__":
    main()
