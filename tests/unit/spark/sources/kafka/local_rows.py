"""The records of a Kafka log directory as the local reader gives them, in the form of the rows of
`kafka_log`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import logdex
from logdex.convert.columns.kafka import NAMES
from logdex.errors import IncompleteReadWarning

_TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
_OURS = {
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "sequence": "sequence",
    "leaderEpoch": "leader_epoch",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
}


def local_rows(path: Path, isolation: str) -> tuple[list[dict[str, Any]], set[str], bool]:
    """All records, control records included, by partition and in the order of the log; the topics;
    whether there is damage. Times are microseconds."""
    with logdex.open(path) as snapshot, warnings.catch_warnings():
        warnings.simplefilter("ignore", IncompleteReadWarning)
        scan = snapshot.scan(isolation=isolation, control=True)  # type: ignore[call-arg]  # of Kafka's snapshots
        found = scan.to_arrow().read_all().to_pylist()
        is_damaged = bool(scan.problems)  # type: ignore[union-attr]
    found.sort(key=lambda row: (row["topic"], row["partition"]))
    return [_as_source(row, str(path)) for row in found], {row["topic"] for row in found}, is_damaged


def _as_source(row: dict[str, Any], log_dir: str) -> dict[str, Any]:
    same = {name: row[name] for name in ("key", "value", "topic", "partition", "offset")}
    headers = [{"key": _text(each["key"]), "value": each["value"]} for each in row["headers"]]
    made = same | {
        "timestamp": row["timestamp_ms"] * 1000,
        "timestampType": _TIMESTAMP_TYPES[row["timestamp_type"]],
        "headers": headers or None,
        "logDir": log_dir,
    }
    made |= {name: row[read] for name, read in _OURS.items()}
    return {name: made[name] for name in NAMES}


def _text(name: bytes | str) -> str:
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def options_of(path: Path, isolation: str, topics: set[str], *, is_damaged: bool) -> dict[str, str]:
    """The options by which `kafka_log` gives the same. Without a mode it fails at damage."""
    options = {"path": str(path), "subscribe": ",".join(sorted(topics)), "isolation.level": isolation}
    options |= {"includeHeaders": "true", "includeControl": "true"}
    return options | ({"mode": "DROPMALFORMED"} if is_damaged else {})
