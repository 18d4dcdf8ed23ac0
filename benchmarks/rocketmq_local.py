"""Rebuild and scan, within this process and as a whole process, against the engine's dispatch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import peer, stores
from benchmarks.measure import AnonymousMemory, remove, same_derived, summary, timed
from logdex.rocketmq.commit_log.commit_log import CommitLog
from logdex.rocketmq.rebuild import rebuild
from logdex.rocketmq.scan.scanner import Scanner
from logdex.rocketmq.settings.store_config import StoreConfig

PEER_REPEATS = 3


def rebuild_in_process(name: str, data: Path, repeats: int) -> dict[str, Any]:
    """Warm, unsynced, one core: Logdex, the engine's unclean dispatch, Logdex again, on the same
    store."""
    root = stores.ensure(stores.SPECS[name], data)
    output = data / "out"
    config = StoreConfig()

    def run() -> None:
        rebuild(str(root), str(output), config, sync=False)

    timed(run, 1, lambda: remove(output))
    seconds = timed(run, repeats, lambda: remove(output))
    engine = engine_dispatch(data / name)
    seconds += timed(run, repeats, lambda: remove(output))
    row = {"what": f"rebuild {name}, in process, unsynced", **summary(seconds)} | against(seconds, engine)
    if engine is not None:
        same, files = same_derived(output, root)
        row["identical_files"] = f"{same} of {files}"
    remove(output)
    return row


def rebuild_whole_process(name: str, data: Path, repeats: int) -> dict[str, Any]:
    """`python -m logdex rebuild`, start and fsync included, against the engine's warm dispatch;
    peak memory."""
    root = stores.ensure(stores.SPECS[name], data)
    output = data / "out"
    command = [sys.executable, "-m", "logdex", "rebuild", str(root), "--output", str(output), "--engine", "local"]
    peak = 0

    def run() -> None:
        nonlocal peak
        with subprocess.Popen([*command, "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            with AnonymousMemory(process.pid) as memory:
                code = process.wait()
            peak = max(peak, memory.peak_bytes)
        if code:
            raise SystemExit(f"{command} ended with {code}")

    engine = engine_dispatch(data / name)
    seconds = timed(run, max(repeats, 3), lambda: remove(output))
    remove(output)
    what = f"rebuild {name}, whole process, fsync"
    return {"what": what, **summary(seconds), "peak_anonymous_mib": peak >> 20} | against(seconds, engine)


def full_scan(name: str, data: Path, repeats: int, *, check_crc: bool = True) -> dict[str, Any]:
    """Every message into columns, with body CRCs verified."""
    root = stores.ensure(stores.SPECS[name], data)
    stores.read_in(root)
    log = CommitLog(str(root / "commitlog"))
    scanner = Scanner(StoreConfig(), check_crc=check_crc)

    def run() -> None:
        for _ in scanner.scan(log):
            pass

    timed(run, 1)
    seconds = timed(run, repeats)
    assert scanner.end is not None
    row = {"what": f"scan {name}{' with CRC' if check_crc else ''}", **summary(seconds)}
    return row | {"gb_per_s": round((scanner.end.offset - log.min_offset) / 1e9 / min(seconds), 2)}


def engine_dispatch(directory: Path) -> list[float] | None:
    """The seconds of the engine's dispatch after an unclean start (warm rounds), or None without
    the engine."""
    if peer.why_missing() is not None:
        return None
    lines = peer.bench_store(directory, "dispatch", repeat=PEER_REPEATS)
    return next([float(run) for run in line["runs"]] for line in lines if line["unclean"])


def against(seconds: list[float], engine: list[float] | None) -> dict[str, Any]:
    """The engine's best and median, and both ratios."""
    if engine is None:
        return {"engine": peer.why_missing()}
    ours, theirs = summary(seconds), summary(engine)
    return {
        "engine_best_s": theirs["best_s"],
        "engine_median_s": theirs["median_s"],
        "ratio_best": round(theirs["best_s"] / ours["best_s"], 2),
        "ratio_median": round(theirs["median_s"] / ours["median_s"], 2),
    }
