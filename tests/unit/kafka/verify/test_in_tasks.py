"""`verify` of a log directory in tasks: how they are divided does not change what is reported."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from logdex.errors import MissingFileError
from logdex.jobs.findings import VerifyReport
from logdex.jobs.tasks import LocalRunner
from logdex.kafka import Log, Record
from logdex.kafka.verify import verify
from tests.examples import cases

PARTITIONS = 9


def facts(report: VerifyReport) -> dict[str, Any]:
    told = [each.to_json() for each in report.findings] + [each.to_json() for each in report.infos]
    return {**report.to_json(), "engine": "any", "tasks": 0, "seconds": 0, "told": told}


def harmed_logs(path: Path, chance: Random) -> Path:
    for number in range(PARTITIONS):
        with Log.open(path / f"events-{number}", segment_bytes=400, index_interval_bytes=100) as log:
            for _ in range(chance.randint(1, 30)):
                log.append([Record(None, b"value", 0)])
    files = sorted(each for each in path.rglob("0*") if each.stat().st_size)
    for file in chance.sample(files, 12):
        data = bytearray(file.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
    return path


@pytest.mark.parametrize("seed", cases(range(16), 8))
def test_any_number_of_threads(seed: int, tmp_path: Path) -> None:
    logs = harmed_logs(tmp_path, Random(seed))
    told = facts(verify(logs))
    assert told["findings"]
    runners = [LocalRunner(jobs=jobs) for jobs in (2, 5, 40)]
    for runner in runners:
        assert facts(verify(logs, runner=runner)) == told
    assert all(runner.tasks > 1 for runner in runners)


@pytest.mark.parametrize("max_findings", [0, 3])
def test_findings_that_are_only_counted(max_findings: int, tmp_path: Path) -> None:
    logs = harmed_logs(tmp_path, Random(1))
    every = verify(logs)
    for jobs in (1, 2, 40):
        report = verify(logs, runner=LocalRunner(jobs=jobs), max_findings=max_findings)
        assert len(report.findings) == max_findings
        assert len(report.findings) + report.truncated == len(every.findings)
        assert not report.is_sound
        assert {each.path for each in report.findings} <= {each.path for each in every.findings}


def test_progress_reaches_what_was_read(tmp_path: Path) -> None:
    logs = harmed_logs(tmp_path, Random(2))
    for jobs in (1, 4):
        said: list[tuple[int, int]] = []
        report = verify(logs, runner=LocalRunner(lambda *totals, said=said: said.append(totals), jobs=jobs))
        assert said == sorted(said)
        assert said[-1] == (report.messages, report.bytes)


class Elsewhere(LocalRunner):
    """Runs tasks on a machine that does not have the logs."""

    def __init__(self, logs: Path, jobs: int = 1) -> None:
        super().__init__(jobs=jobs)
        self.logs = logs

    def run(self, name: str, function: Any, tasks: Any) -> list[Any]:
        away = self.logs.rename(self.logs.with_name("away"))
        try:
            return super().run(name, function, tasks)
        finally:
            away.rename(self.logs)


def test_a_worker_that_does_not_see_the_logs(tmp_path: Path) -> None:
    logs = harmed_logs(tmp_path / "logs", Random(5))
    with pytest.raises(MissingFileError, match="a worker does not see it"):
        verify(logs, runner=Elsewhere(logs))


def test_findings_of_a_path_that_is_no_text(tmp_path: Path) -> None:
    logs = harmed_logs(tmp_path / os.fsdecode(b"lo\xffgs"), Random(6))
    table = verify(logs).to_arrow()
    assert table.num_rows
    assert all("lo\\udcffgs" in path for path in table.column("path").to_pylist())


def test_progress_of_one_partition(tmp_path: Path) -> None:
    partition = harmed_logs(tmp_path, Random(2)) / "events-3"
    said: list[tuple[int, int]] = []
    report = verify(partition, progress=lambda *totals: said.append(totals))
    assert said[-1] == (report.messages, report.bytes)


def test_a_healthy_golden_directory(golden_log: Callable[[str], Path]) -> None:
    logs = golden_log("tiny-broker")
    assert facts(verify(logs)) == facts(verify(logs, runner=LocalRunner(jobs=3)))


def test_no_partition_at_all(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=a\nnode.id=1\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    for jobs in (1, 3):
        assert verify(tmp_path, runner=LocalRunner(jobs=jobs)).messages == 0
