"""Single calls of a `Log`, beside SQLite with a write-ahead log and without syncs: appends of one
record of 100 B, and reads of one record at an offset. The two take turns."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import Rates, judged, remove
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log

APPENDS, READS = 20_000, 1_000
APPEND_BAR = 25_000
READ_BAR_US = 500
_BODY = b"x" * 100


def singles(data: Path, repeats: int, share: float = 1.0) -> Iterator[dict[str, Any]]:
    """Appends per second, and microseconds per read. `share` makes the run smaller."""
    root, appends, reads = data / "singles", max(int(share * APPENDS), 10), max(int(share * READS), 5)
    remove(root)
    root.mkdir(parents=True)
    base = sqlite3.connect(root / "log.db", isolation_level=None)
    base.execute("PRAGMA journal_mode=WAL")
    base.execute("PRAGMA synchronous=OFF")
    base.execute("CREATE TABLE log (offset INTEGER PRIMARY KEY, body BLOB)")
    with Log.open(root / "bench-0") as log:
        ours = Rates("Log.append of one record, async", appends, partial(_append, log, appends))
        theirs = Rates("INSERT", appends, partial(_insert, base, appends))
        _in_turns(ours, theirs, repeats)
        row = {"what": ours.what, "best": round(max(ours.wall)), "on_core": round(max(ours.on_core))}
        row |= _beside(ours, theirs)
        yield judged(row, "per_s", ours.median, APPEND_BAR)
        offsets = range(1, appends + 1, max(appends // reads, 1))
        theirs = Rates("SELECT", len(offsets), partial(_each, partial(_select, base), offsets))
        ways: dict[str, Callable[[int], object]] = {
            "Log.read(offset, max_records=1)": partial(_read, log),
            "next(log.records(offset))": lambda offset: next(log.records(offset)),
        }
        for name, call in ways.items():
            ours = Rates(name, len(offsets), partial(_each, call, offsets))
            _in_turns(ours, theirs, repeats)
            row = {"what": name, "on_core_us": round(1e6 / max(ours.on_core), 1), **_beside(ours, theirs)}
            yield judged(row, "us", 1e6 / ours.median, READ_BAR_US, at_most=True)
    base.close()
    remove(root)


def _in_turns(ours: Rates, theirs: Rates, repeats: int) -> None:
    for _ in range(repeats):
        ours.measure(1)
        theirs.measure(1)


def _beside(ours: Rates, theirs: Rates) -> dict[str, float]:
    return {"sqlite_per_s": round(theirs.median), "ratio": round(ours.median / theirs.median, 3)}


def _append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(Record(value=_BODY))


def _insert(base: sqlite3.Connection, count: int) -> None:
    for _ in range(count):
        base.execute("INSERT INTO log (body) VALUES (?)", (_BODY,))


def _each(call: Callable[[int], object], offsets: range) -> None:
    for offset in offsets:
        call(offset)


def _read(log: Log, offset: int) -> None:
    [record] = log.read(offset, max_records=1)
    assert record.offset == offset


def _select(base: sqlite3.Connection, offset: int) -> None:
    [_] = base.execute("SELECT body FROM log WHERE offset = ?", (offset,)).fetchall()
