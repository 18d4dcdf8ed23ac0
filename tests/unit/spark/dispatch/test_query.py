"""The batches of a dispatch's query: their rows, the steps that they become, and a source that
starts too slowly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from logdex.convert.index_pipeline import IndexPipeline
from logdex.errors import EnvironmentProblem, UsageError
from logdex.formats import detect
from logdex.rocketmq.dispatch.job import Dispatcher
from logdex.spark.dispatch import query
from logdex.spark.dispatch.log_ends import LogEndsSource, rows_between
from tests.unit.rocketmq.dispatch.growing import CONFIG, SIZES, grow, require_rebuilt


def test_rows_are_the_logs_that_have_changed() -> None:
    start, end = {"t": {"0": 3, "1": 5, "2": 9}}, {"t": {"0": 3, "1": 7, "2": 4}, "u": {"0": 2}}
    assert rows_between(start, end) == [("t", "1", 5, 7), ("t", "2", 9, 4), ("u", "0", 0, 2)]


def test_the_source_reads_no_message(tmp_path: Path) -> None:
    grow(tmp_path / "store", 20, 0)
    found = detect(str(tmp_path / "store"))
    reader = LogEndsSource({**query._options(found, SIZES), "path": found.path}).streamReader(None)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    [partition] = reader.partitions(start, end)
    [(log, part, begin, offset)] = reader.read(partition)
    assert (log, part, begin) == ("store", "commitlog", 0)
    assert offset > 0
    assert list(reader.read(InputPartition([]))) == []


class Batch:
    """What `foreachBatch` gets."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self._rows = rows

    def collect(self) -> tuple[dict[str, Any], ...]:
        return self._rows


def test_a_batch_becomes_a_step(tmp_path: Path) -> None:
    """A batch that is taken again adds nothing; the error of a step is kept."""
    grow(tmp_path / "store", 20, 0)
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        batches = query.Batches(IndexPipeline(job))
        for _ in range(2):
            batches.take(Batch({"log": "store", "part": "commitlog", "end": 1 << 40}), 0)  # type: ignore[arg-type]
            assert job.report.messages == 20
        with pytest.raises(KeyError):
            batches.take(Batch({}), 1)  # type: ignore[arg-type]
        assert isinstance(batches.error, KeyError)
    require_rebuilt(tmp_path / "store", tmp_path / "out", tmp_path / "rebuilt")


class Anything:
    """Stands for a session: every attribute and call is itself."""

    def __getattr__(self, name: str) -> Anything:
        return self

    def __call__(self, *_: object, **__: object) -> Anything:
        return self


@pytest.mark.parametrize(("failures", "succeeds"), [(0, True), (4, True), (5, False)])
def test_a_source_that_starts_too_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int, succeeds: bool
) -> None:
    """The query is started again, a few times, each with a checkpoint of its own."""
    grow(tmp_path / "store", 5, 0)
    checkpoints: list[str] = []

    def run(stream: object, pipeline: IndexPipeline, trigger: dict[str, Any], checkpoint: str) -> None:
        checkpoints.append(checkpoint)
        if len(checkpoints) <= failures:
            raise EnvironmentProblem("Spark failed: Python worker failed to connect back")

    monkeypatch.setattr(query, "_run", run)
    with Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        arguments = Anything(), IndexPipeline(job), detect(str(tmp_path / "store")), SIZES
        if succeeds:
            query.dispatch_stream(*arguments)  # type: ignore[arg-type]
        else:
            with pytest.raises(EnvironmentProblem):
                query.dispatch_stream(*arguments)  # type: ignore[arg-type]
    assert len(set(checkpoints)) == len(checkpoints) == min(failures + 1, 5)
    assert job.report.messages == (5 if succeeds else 0)


def test_other_errors_are_raised_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path / "store", 5, 0)

    def run(*_: object) -> None:
        raise UsageError("that is enough")

    monkeypatch.setattr(query, "_run", run)
    with pytest.raises(UsageError), Dispatcher(tmp_path / "store", tmp_path / "out", CONFIG) as job:
        query.dispatch_stream(
            Anything(),  # type: ignore[arg-type]
            IndexPipeline(job),
            detect(str(tmp_path / "store")),
            SIZES,
        )
