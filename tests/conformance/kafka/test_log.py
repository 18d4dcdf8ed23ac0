"""`Log.open` on directories that a real broker wrote, held against what the broker's own load of
them left."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    LOG_START_CHECKPOINT,
    LONE_CLEAN_MARK,
    RECOVERY_POINT_CHECKPOINT,
    parse_partition_dir,
)
from logdex.kafka.log.log import Log
from tests.golden.kafka import NAMES, index_interval_bytes, lines, unpack

MODES = ("clean", "unclean", "full")
OWN = {".lock", LONE_CLEAN_MARK, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT}
"""What a lone partition directory holds of ours; a broker keeps these, or their like, beside the
partition."""
WHEN_MS = 1_795_257_600_000
"""About when the real engine loaded them: producers that were silent for a day by then are
dropped."""


def prepare(root: Path, mode: str) -> None:
    """Gives a log directory the state that `ReadLog --load MODE` gives it."""
    (root / CLEAN_SHUTDOWN).unlink(missing_ok=True)
    if mode == "clean":
        (root / CLEAN_SHUTDOWN).write_text('{"version":0,"brokerEpoch":-1}')
    if mode == "full":
        (root / RECOVERY_POINT_CHECKPOINT).unlink(missing_ok=True)


def open_log(root: Path, partition: str, name: str) -> Log:
    return Log.open(
        str(root / partition), create=False, index_interval_bytes=index_interval_bytes(name), clock_ms=lambda: WHEN_MS
    )


def by_partition(name: str, mode: str, kind: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines(name, f"loaded.{mode}", kind):
        found.setdefault(line["partition"], []).append(line)
    return found


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", NAMES)
def test_a_load_leaves_what_the_brokers_load_left(tmp_path: Path, name: str, mode: str) -> None:
    """Offsets, epochs, segments and the number of index entries; then, once closed, every file byte
    for byte."""
    logs, files = by_partition(name, mode, "log"), by_partition(name, mode, "file")
    assert logs or files
    root = unpack(name, tmp_path)
    for partition in sorted(files):
        if parse_partition_dir(partition) is None:
            continue
        prepare(root, mode)
        if partition not in logs:  # the broker could not load it
            with pytest.raises(CorruptError):
                open_log(root, partition, name)
            continue
        expected = logs[partition][0]
        with open_log(root, partition, name) as log:
            differing = check_segments(log, expected["segments"])
            assert log.log_start_offset == expected["logStartOffset"], partition
            assert log.log_end_offset == expected["logEndOffset"], partition
            assert log.last_stable_offset == expected["lastStableOffset"], partition
            latest = str(log.leader_epochs[-1].epoch) if log.leader_epochs else ""
            assert latest == re.sub(r"\D", "", expected["latestEpoch"]), partition
        left = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in (root / partition).iterdir()
            if path.name not in OWN
        }
        wanted = {line["name"]: line["sha256"] for line in files[partition]}
        for other in differing:
            left.pop(other), wanted.pop(other)
        assert left == wanted, partition


def check_segments(log: Log, expected: list[dict[str, Any]]) -> list[str]:
    """Compares; gives the files that differ by intent: index files whose zeros the broker takes for
    entries, because it trusts a clean mark, and a .log whose torn end it would keep."""
    differing = []
    assert [segment.base_offset for segment in log.segments] == [each["base"] for each in expected]
    for segment, real in zip(log.segments, expected, strict=True):
        torn = [each.size_bytes for each in log.load_report.actions if each.path == segment.log.path]
        if log.load_report.was_clean and torn:  # bytes behind which the broker would append, and lose what it appends
            differing.append(Path(segment.log.path).name)
            assert segment.size_bytes + torn[0] == real["size"]
        else:
            assert segment.size_bytes == real["size"]
        for index, entries in (
            (segment.offset_index, real["offsetIndexEntries"]),
            (segment.time_index, real["timeIndexEntries"]),
        ):
            if entries > index.entries and log.load_report.was_clean:
                differing.append(Path(index.path).name)
            else:
                assert index.entries == entries, index.path
    return differing
