"""`kafka_log` without Spark: what a broker removes between the plan and a task."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from logdex.convert.columns.projection import Projection
from logdex.errors import UsageError, VanishedError
from logdex.kafka.files.metadata_files import PartitionMetadata
from logdex.kafka.log.log import Log
from logdex.spark.sources.damage import FAILFAST
from logdex.spark.sources.kafka.table import LogDirTable
from tests.unit.spark.sources.kafka.small_logs import write
from tests.unit.spark.sources.tables import plan_of, rows_of, rows_of_plan


def table(path: Path, **options: str) -> LogDirTable:
    return LogDirTable({"path": str(path), **options})


HARMS: dict[str, tuple[Callable[[Path], None], str]] = {
    "old records removed": (lambda root: remove_first(root, 15), "a broker has removed records meanwhile: from offset"),
    "begun anew elsewhere": (lambda root: begin_anew(root, 500), "from offset 0 on they are wanted, the first is 500"),
    "cut by segments": (lambda root: cut_to(root, 4), "the log was cut"),
    "created again": (lambda root: created_again(root), "the topic was deleted and created again meanwhile"),
}


def remove_first(root: Path, offset: int) -> None:
    with Log.open(root / "t-0", segment_bytes=600, index_interval_bytes=1) as log:
        log.delete_records(offset)


def begin_anew(root: Path, offset: int) -> None:
    with Log.open(root / "t-0", segment_bytes=600, index_interval_bytes=1) as log:
        log.truncate_fully_and_start_at(offset)


def cut_to(root: Path, offset: int) -> None:
    with Log.open(root / "t-0", segment_bytes=600, index_interval_bytes=1) as log:
        log.truncate_to(offset)


def created_again(root: Path) -> None:
    shutil.rmtree(root / "t-0")
    with_id(root, 2)


def with_id(root: Path, number: int) -> Path:
    write(root, "t-0", 20, segment_bytes=600)
    PartitionMetadata(uuid.UUID(int=number)).write(str(root / "t-0" / "partition.metadata"))
    return root


@pytest.mark.parametrize("raw", [{}, {"rawBatches": "true"}])
@pytest.mark.parametrize("harm", HARMS)
def test_what_a_broker_removes_behind_the_plan(tmp_path: Path, harm: str, raw: dict[str, str]) -> None:
    """A task finds less than was planned: an error, or what is left without failOnDataLoss. No row
    is of another topic."""
    root = with_id(tmp_path / "logs", 1)
    act, told = HARMS[harm]
    strict, lenient = table(root, **raw), table(root, failOnDataLoss="false", **raw)
    whole = rows_of(strict)
    plans = {each: plan_of(each) for each in (strict, lenient)}
    act(root)
    with pytest.raises(VanishedError, match=told) as caught:
        rows_of_plan(plans[strict], Projection(strict.columns, strict.names), FAILFAST)
    assert "failOnDataLoss" in str(caught.value)
    found = rows_of_plan(plans[lenient], Projection(lenient.columns, lenient.names), FAILFAST)
    assert len(found) < 20
    assert [row for row in whole if row in found] == found
    if harm == "created again":
        assert found == []
        with pytest.raises(UsageError, match="t-0 was deleted and created again meanwhile"):
            rows_of(strict)
        assert rows_of(lenient) == []


def test_segments_that_a_broker_cut_off(tmp_path: Path) -> None:
    """The task that reads a later segment says so, too."""
    root = write(tmp_path / "logs", "t-0", 20, segment_bytes=600)
    read = table(root)
    plan = plan_of(read)
    cut_to(root, 3)
    plan.parts = plan.parts[1:]
    with pytest.raises(VanishedError, match="the log was cut meanwhile: it ends at offset 3, records up to"):
        rows_of_plan(plan, Projection(read.columns, read.names), FAILFAST)


def test_a_huge_gap_of_offsets(tmp_path: Path) -> None:
    root = write(tmp_path / "logs", "t-0", 2)
    file = next((root / "t-0").glob("*.log"))
    data = bytearray(file.read_bytes())
    data[int.from_bytes(data[8:12], "big") + 12] = 0x40  # in the last base offset, which no checksum covers
    file.write_bytes(data)
    with pytest.raises(UsageError, match=r"maxRecordsPerPartition 1000 divides the offsets .* of t-0 into more than"):
        rows_of(table(root, maxRecordsPerPartition="1000"))
