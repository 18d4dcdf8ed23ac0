"""One answer to "was it closed cleanly", for those who look, those who check and the log that opens
the directory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.kafka.batch.record import Record
from logdex.kafka.directory.clean_mark import is_closed_cleanly
from logdex.kafka.directory.recognise import require_kafka
from logdex.kafka.files.file_names import (
    CLEAN_SHUTDOWN,
    LONE_CLEAN_MARK,
    META_PROPERTIES,
    RECOVERY_POINT_CHECKPOINT,
    offset_file_name,
)
from logdex.kafka.log.log import Log
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.overview import overview
from logdex.kafka.verify.verifier import verify

NAME = "events-0"


def fill(directory: Path) -> Path:
    with Log.open(str(directory)) as log:
        log.append([Record(value=b"%d" % number) for number in range(10)])
    return directory


def answers(path: Path) -> list[bool | None]:
    """What `is_closed_cleanly` and ``info`` say of a partition, and whether its `Log` recovers it,
    which comes last."""
    seen = is_closed_cleanly(str(path), env=DEFAULT_ENV)
    (shown,) = overview(require_kafka(str(path)), LogConfig()).partitions
    with Log.open(str(path)) as log:
        return [seen, shown.clean, log.load_report.was_clean]


def test_a_lone_partition_says_it_itself(tmp_path: Path) -> None:
    path = fill(tmp_path / NAME)
    assert answers(path) == [True, True, True]
    (path / LONE_CLEAN_MARK).unlink()
    assert answers(path) == [None, None, False]


@pytest.mark.parametrize("name", [offset_file_name(0, ".log"), offset_file_name(10, ".log")])
def test_a_mark_that_is_older_than_the_log_says_nothing(tmp_path: Path, name: str) -> None:
    """Somebody wrote to the active segment, or began another one, and did not take the mark
    away."""
    path = fill(tmp_path / NAME)
    data = (path / offset_file_name(0, ".log")).read_bytes()
    with (path / name).open("ab") as file:
        file.write(data[:7] + b"\x0a" + data[8:])  # ten offsets on: no checksum covers them
    assert answers(path) == [None, None, False]


def test_a_log_directory_says_it_for_its_partitions(tmp_path: Path) -> None:
    path = fill(tmp_path / NAME)  # its own mark stays, and counts no more
    (tmp_path / RECOVERY_POINT_CHECKPOINT).write_text("0\n0\n")
    assert answers(path) == [False, False, False]
    (tmp_path / CLEAN_SHUTDOWN).write_text("")
    assert answers(path) == [True, True, True]
    (tmp_path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    assert answers(path) == [False, False, False]


def test_the_quorums_own_log_is_never_closed(tmp_path: Path) -> None:
    """A broker's shutdown does not close it, and its start recovers it, whatever the mark says."""
    path = fill(tmp_path / "__cluster_metadata-0")
    (tmp_path / CLEAN_SHUTDOWN).write_text("")
    assert overview(require_kafka(str(path)), LogConfig()).clean is True  # the directory was
    assert answers(path) == [False, False, False]


def test_verify_holds_no_log_to_a_mark_that_is_older(tmp_path: Path) -> None:
    """The last time entry is one of the close, which has not come."""
    crashed = tmp_path / "crashed" / NAME
    with Log.open(str(tmp_path / NAME), index_interval_bytes=1 << 20) as log:
        for timestamp_ms in (1000, 2000):
            log.append([Record(value=b"a", timestamp_ms=timestamp_ms)])
        log.flush()
        shutil.copytree(tmp_path / NAME, crashed)
    (crashed / LONE_CLEAN_MARK).write_text(f"{offset_file_name(0, '.log')} 70\n")
    assert verify(str(crashed)).findings == []
