"""`cat --json` and `cat` in bulk, as processes of their own, against Kafka's `kafka-dump-log`
(DumpLogSegments of 3.9.2) on the same file and in the same run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import kafka_data, kafka_peer, stores
from benchmarks.measure import judged, summary, timed

Row = dict[str, Any]

OF_DUMP_BAR = 5
MESSAGES_BAR = 300_000
RECORDS = 3_000_000
_DUMP = "kafka.tools.DumpLogSegments"
_DUMP_VERSION = "3.9.2"


def printing(data: Path, repeats: int, records: int = RECORDS, name: str = "100b") -> Iterator[Row]:
    """Prints a Kafka log and a RocketMQ store, with --json and as text, to /dev/null."""
    log = kafka_data.ensure(data / f"print-{records}", "none", records) / kafka_data.LOG_NAME
    dumped = (
        None
        if (dump := _dump_command(log, data / f"print-{records}" / "jars")) is None
        else records / min(timed(lambda: _run(dump), 2))
    )
    for flags in (["--json"], []):
        rate, row = _rate(["cat", str(log), *flags], records, repeats)
        row = {"what": " ".join(["cat", *flags, "of a Kafka log"]), **row}
        if dumped is not None:
            row = judged(row | {"dump_log_per_s": round(dumped)}, "ratio", rate / dumped, OF_DUMP_BAR)
        yield row
    store = stores.ensure(stores.SPECS[name], data)
    stores.read_in(store)
    for flags in (["--json"], []):
        rate, row = _rate(["cat", str(store), *flags], stores.SPECS[name].messages, repeats)
        yield judged({"what": " ".join(["cat", *flags, "of a RocketMQ store"]), **row}, "per_s", rate, MESSAGES_BAR)


def _rate(arguments: Sequence[str], count: int, repeats: int) -> tuple[float, Row]:
    """How many records or messages a command prints per second, its start included."""
    command = [sys.executable, "-m", "logdex", *arguments]
    seconds = timed(lambda: _run(command), repeats)
    rate = count / min(seconds)
    return rate, {**summary(seconds), "per_s": round(rate)}


def _run(command: Sequence[str]) -> None:
    """Runs a command as an installed one runs, whose modules are compiled once, not each time."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True, env=environment)


def _dump_command(log: Path, jars: Path) -> list[str] | None:
    """The real engine's command, or None where it is not installed. The jar that it needs beside
    those of the peers is fetched to `jars`."""
    if kafka_peer.why_missing() is not None:
        return None
    peers_jars = [str(kafka_peer.ENGINE), "-v", _DUMP_VERSION, "ReadLog"]
    subprocess.run(peers_jars, capture_output=True, check=False)  # it fetches them, and ends without arguments
    if not any(jars.glob("*.jar")):
        artifact = f"-Dartifact=org.apache.kafka:kafka-tools-api:{_DUMP_VERSION}"
        _run(["mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={jars}"])
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    path = f"{cache}/logdex-peers/kafka-{_DUMP_VERSION}/lib/*:{jars}/*"
    return ["java", "-Xmx4g", "-cp", path, _DUMP, "--print-data-log", "--files", str(log)]
