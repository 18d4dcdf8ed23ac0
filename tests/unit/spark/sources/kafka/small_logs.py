"""Small log directories for the tests of `kafka_log`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log

START_MS = 1_700_000_000_000


def write(directory: Path, name: str, count: int, *, segment_bytes: int = 1 << 20) -> Path:
    """A partition with one record per batch, 10 ms apart, in a log directory."""
    directory.mkdir(exist_ok=True)
    (directory / "meta.properties").write_text("version=1\ncluster.id=c1\nnode.id=1\n")
    with Log.open(str(directory / name), segment_bytes=segment_bytes, index_interval_bytes=1) as log:
        for number in range(count):
            headers = (("trace", b"1"), ("none", None)) if number == 0 else ()
            log.append([Record(b"k%d" % number, b"v" * 50, START_MS + 10 * number, headers=headers)])
    return directory


def places(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    return found
