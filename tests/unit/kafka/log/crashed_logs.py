"""What the tests of loading share: logs, and what is done to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import LONE_CLEAN_MARK, RECOVERY_POINT_CHECKPOINT
from logdex.kafka.log.load_report import LoadStep
from logdex.kafka.log.log import Log

SETTINGS: dict[str, Any] = {"segment_bytes": 400, "segment_index_bytes": 1200, "index_interval_bytes": 1}


def fill(path: Path, count: int = 20, **settings: Any) -> None:
    with Log.open(str(path), **{**SETTINGS, **settings}) as log:
        for number in range(count):
            log.append(Record(value=b"value %d" % number, timestamp_ms=1000 + 10 * number))


def crash(path: Path, *, recovery_point: bool = False) -> None:
    """Takes away what says that the log was closed cleanly."""
    (path / LONE_CLEAN_MARK).unlink()
    if not recovery_point:
        (path / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)


def reopen(path: Path, **settings: Any) -> Log:
    return Log.open(str(path), **{**SETTINGS, **settings})


def contents(log: Log) -> list[bytes | None]:
    return [record.value for record in log.records()]


def expected(count: int) -> list[bytes]:
    return [b"value %d" % number for number in range(count)]


def steps(log: Log) -> list[tuple[LoadStep, str]]:
    return [(action.step, Path(action.path).name) for action in log.load_report.actions]


def bases(path: Path) -> list[int]:
    return sorted(int(file.stem) for file in path.glob("*.log"))


def index_bytes(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes().rstrip(b"\0") for file in [*path.glob("*.index"), *path.glob("*.timeindex")]}
