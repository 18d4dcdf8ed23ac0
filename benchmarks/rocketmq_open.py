"""Opening a `MessageStore`: a large one that was closed, and one whose process was killed and which
lacks all that is derived, beside the real engine."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks import peer, stores
from benchmarks.measure import judged, remove
from benchmarks.rocketmq_local import engine_dispatch
from benchmarks.rocketmq_put import ROWS_AT_ONCE, make_table
from logdex.rocketmq.message_store.message_store import MessageStore

CLEAN_BAR_S, UNCLEAN_BAR = 0.3, 5.0
LARGE_GIB = 10
_GIB = 1 << 30
_LARGE_BODY, _LARGE_AT_ONCE = 256 << 10, 256
_SMALL_BODY = 1024


def opening(
    data: Path, repeats: int, gib: int = LARGE_GIB, names: tuple[str, ...] = ("1k", "100b")
) -> Iterator[dict[str, Any]]:
    """A clean store of `gib` GiB, then the stores `names` after an unclean end, without any derived
    file."""
    yield _clean(data / "open", repeats, gib)
    remove(data / "open")
    for name in names:
        yield _unclean(name, data, repeats)


# -- clean ---------------------------------------------------------------------------------------
def _clean(root: Path, repeats: int, gib: int) -> dict[str, Any]:
    """`work_s` is the CPU time of the best opening, `seconds` its time by the clock."""
    _make_large(root, gib)
    work, wall = [], []
    for _ in range(repeats + 1):
        start, start_wall = time.process_time(), time.perf_counter()
        store = MessageStore.open(root, background=False)
        work.append(time.process_time() - start)
        wall.append(time.perf_counter() - start_wall)
        assert store.load_report.was_clean
        assert store.max_phy_offset > (gib - 1) * _GIB
        store.close()
    row = {"what": f"open a clean store of {gib} GiB", "median_work_s": round(statistics.median(work), 4)}
    row["seconds"] = round(min(wall), 4)
    return judged(row, "work_s", min(work), CLEAN_BAR_S, at_most=True)


def _make_large(root: Path, gib: int) -> None:
    """All files but the last hold large messages, whose bodies are zeros and take no space on the
    disk where the system has a command for that. The last one is full of messages of 1 KB."""
    remove(root)
    print(f"  making a store of {gib} GiB", file=sys.stderr, flush=True)
    count = _LARGE_AT_ONCE
    body = pa.array([bytes(_LARGE_BODY)], pa.large_binary()).take(pa.array(np.zeros(count, np.int32)))
    numbers = np.arange(count)
    keys = pa.array([f"large-{number}" for number in range(count)])
    large = pa.table({"topic": ["Large"] * count, "body": body, "queue_id": numbers % 4, "keys": keys})
    small = make_table(ROWS_AT_ONCE, _SMALL_BODY)
    with MessageStore.open(root) as store:
        dug = 0
        while store.max_phy_offset < (gib - 1) * _GIB:
            store.put_columns(large)
            while dug < store.max_phy_offset // _GIB:
                store.wait_dispatched()
                _dig_holes(root / "commitlog" / f"{dug * _GIB:020d}")
                dug += 1
        while store.max_phy_offset < gib * _GIB - 2 * ROWS_AT_ONCE * _SMALL_BODY:
            store.put_columns(small)


def _dig_holes(path: Path) -> None:
    if shutil.which("fallocate") is not None:
        subprocess.run(["fallocate", "--dig-holes", str(path)], check=False, stderr=subprocess.DEVNULL)


# -- unclean -------------------------------------------------------------------------------------
def _unclean(name: str, data: Path, repeats: int) -> dict[str, Any]:
    """Recovery and dispatch of everything: ours, the engine's (the median of its warm rounds), ours
    again. `work_s` is the CPU time of our best opening."""
    root = stores.ensure(stores.SPECS[name], data)
    stores.read_in(root)
    wall, work = _unclean_openings(root, repeats + 1)
    engine = engine_dispatch(data / name)
    more, more_work = _unclean_openings(root, repeats)
    wall, work = wall[1:] + more, work[1:] + more_work
    row: dict[str, Any] = {"what": f"open the store {name} after an unclean end", "work_s": round(min(work), 3)}
    row |= {"seconds": round(statistics.median(wall), 3), "best_s": round(min(wall), 3)}
    if engine is None:
        return row | {"engine": peer.why_missing()}
    row |= {"engine_s": round(statistics.median(engine), 3), "engine_best_s": round(min(engine), 3)}
    row["ratio_best"] = round(min(engine) / min(wall), 2)
    return judged(row, "ratio", statistics.median(engine) / statistics.median(wall), UNCLEAN_BAR)


def _unclean_openings(root: Path, count: int) -> tuple[list[float], list[float]]:
    """The seconds of some openings, by the clock and by CPU time."""
    wall, work = [], []
    for _ in range(count):
        for name in ("consumequeue", "index"):
            remove(root / name)
        (root / "checkpoint").unlink(missing_ok=True)
        (root / "abort").touch()
        start, start_work = time.perf_counter(), time.process_time()
        store = MessageStore.open(root, background=False)
        wall.append(time.perf_counter() - start)
        work.append(time.process_time() - start_work)
        assert store.dispatch_behind_bytes == 0
        store.close()
    return wall, work
