"""Runs the peer of the RocketMQ figures: BenchStore in ../shared/peers/rocketmq, the real
engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PEER = ROOT.parent / "shared" / "peers" / "rocketmq" / "run"
TIMEOUT_S = 3000


def why_missing() -> str | None:
    """What the peer needs and is missing here, or None."""
    lacking = [tool for tool in ("java", "mvn") if shutil.which(tool) is None]
    if not PEER.exists():
        lacking.append("../shared/peers")
    return f"no {' and no '.join(lacking)}" if lacking else None


def bench_store(directory: Path, what: str, **options: int) -> list[dict[str, Any]]:
    """Runs BenchStore and returns one dictionary per line of its output."""
    flags = [text for name, value in options.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    command = [str(PEER), "BenchStore", "--dir", str(directory), "--what", what, *flags]
    env = os.environ | {"JAVA_OPTS": os.environ.get("JAVA_OPTS", "-Xms2g -Xmx2g")}
    print(f"  the real engine: {what} in {directory}", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, env=env, timeout=TIMEOUT_S, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith(b"{")]
