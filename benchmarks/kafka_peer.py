"""Runs the peers of the Kafka figures: BenchLog (the real classes), native and Python peers in
../shared/peers."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

PEERS = Path(__file__).resolve().parent.parent.parent / "shared" / "peers"
ENGINE = PEERS / "kafka" / "run"
NATIVE = PEERS / "rust" / "run"
PYTHON = PEERS / "python" / "decoders.py"
PYTHON_VARIABLE = "LOGDEX_PEERS_PYTHON"
"""The interpreter that has the Python peers, which are no dependencies of Logdex."""
TIMEOUT_S = 900
WARM_ROUNDS = 3
"""The number of last rounds that count: by then the JVM has compiled hot code."""
REPEATS = 7


def why_missing() -> str | None:
    """What the engine needs and is missing here, or None."""
    return _lacking(ENGINE, "java", "mvn")


def why_native_missing() -> str | None:
    """What the native peers need and is missing here, or None."""
    return _lacking(NATIVE, "cargo")


def why_python_missing() -> str | None:
    """What the Python peers need and is missing here, or None."""
    python = os.environ.get(PYTHON_VARIABLE, "")
    if not python:
        return f"{PYTHON_VARIABLE} names no interpreter that has them"
    return _lacking(PYTHON, python)


def _lacking(program: Path, *tools: str) -> str | None:
    lacking = [tool for tool in tools if shutil.which(tool) is None]
    if not program.exists():
        lacking.append("../shared/peers")
    return f"no {' and no '.join(lacking)}" if lacking else None


def write_and_append(data: Path, codec: str, records: int, repeats: int = REPEATS) -> dict[str, float]:
    """Runs BenchLog's first half, which writes data/bench-CODEC-0 and measures appends."""
    return _bench_log(
        data, repeats, f"bench-{codec}-0", "--codecs", codec, "--records", str(records), "--partition", "none"
    )


def read(data: Path, codec: str) -> dict[str, float]:
    """Runs its second half: recovery, decoding and look-ups of data/bench-CODEC-0."""
    name = f"bench-{codec}-0"
    return _bench_log(data, REPEATS, name, "--existing", "--partition", name)


def _bench_log(data: Path, repeats: int, partition: str, *options: str) -> dict[str, float]:
    command = [str(ENGINE), "BenchLog", "--dir", str(data), "--repeats", str(repeats), *options]
    print(f"  the real engine: {' '.join(options)}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    return warm_figures(json.loads(done.stdout)["partitions"][partition])


def warm_figures(partition: dict[str, Any]) -> dict[str, float]:
    """The median of the last rounds by name, from BenchLog's figures of a partition."""
    return {
        name.removesuffix("All"): statistics.median(rounds[-WARM_ROUNDS:])
        for name, rounds in partition.items()
        if name.endswith("All")
    }


def native(partition: Path, repeats: int) -> list[dict[str, Any]]:
    """The figures of kafka_bench (krabka-log, kafka-protocol) for a partition: names, units,
    medians."""
    scratch = partition.parent / "native.scratch"
    command = [str(NATIVE), "kafka_bench", "--dir", str(partition), "--work", str(scratch), "--repeats", str(repeats)]
    try:
        return [line for line in _json_lines(command) if "median" in line]
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def python_decoders(segment: Path, records: int, repeats: int) -> list[dict[str, Any]]:
    """The figures of decoders.py (kafka-python, aiokafka) for a .log."""
    command = [os.environ[PYTHON_VARIABLE], str(PYTHON), str(segment), "--records", str(records)]
    return _json_lines([*command, "--repeats", str(repeats)])


def _json_lines(command: list[str]) -> list[dict[str, Any]]:
    print(f"  peers: {' '.join(command[:2])}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
