"""A lazy table as a dataset of Arrow."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from logdex.errors import StoreError, UsageError
from logdex.frames.conditions import GREATER, Condition, Conditions
from logdex.frames.dataset import LogDataset
from logdex.frames.tables import Rows, TimedTable
from tests.conftest import GoldenStore

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string()), ("at_timestamp_ms", pa.int64())])


class Source:
    """Three batches of ten rows. Notes what is asked for, and leaves nothing out."""

    schema = SCHEMA

    def __init__(self, problem: Exception | None = None) -> None:
        self.asked: list[tuple[list[str], Conditions]] = []
        self.problem = problem
        self.read = 0
        """How many batches were made."""

    def batches(self, columns: Sequence[str], conditions: Conditions) -> Iterator[pa.RecordBatch]:
        self.asked.append((list(columns), conditions))
        for start in range(0, 30, 10):
            self.read += 1
            rows = [{"n": n, "text": str(n), "at_timestamp_ms": n * 1000} for n in range(start, start + 10)]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def source() -> Source:
    return Source()


def test_only_what_is_needed_is_asked_for(source: Source) -> None:
    dataset = LogDataset(TimedTable(source))
    assert dataset.schema.names == ["n", "text", "at_timestamp_ms", "at_timestamp"]
    rows = dataset.to_table(columns=["text"], filter=pc.field("n") > 27)
    assert rows.to_pylist() == [{"text": "28"}, {"text": "29"}]
    assert source.asked == [(["n", "text"], Conditions((Condition("n", GREATER, 27),)))]


def test_nothing_is_read_ahead(source: Source) -> None:
    """Arrow's scanner does so in a thread of its own, which goes on when a process ends."""
    dataset = LogDataset(TimedTable(source))
    assert dataset.head(3, columns=["n"]).num_rows == 3
    assert source.read == 1
    reader = dataset.scanner(["n"], pc.field("n") > 2).to_reader()
    assert reader.read_next_batch().num_rows == 7
    assert source.read == 2
    assert dataset.head(12).num_rows == 12
    assert source.read == 4


@pytest.mark.slow
def test_a_process_ends_whose_query_stopped_early(golden_store: GoldenStore) -> None:
    store = str(golden_store("tiny-5.5.0"))
    program = f"import logdex\nwith logdex.open({store!r}) as s: print(s.scan().to_dataset().head(3).num_rows)"
    query = ["-m", "logdex", "sql", store, "SELECT topic FROM messages LIMIT 3"]
    for arguments in [["-c", program], query] * 4:
        subprocess.run([sys.executable, *arguments], check=True, timeout=60, stdout=subprocess.DEVNULL)


def test_ways_to_read(source: Source) -> None:
    dataset = LogDataset(TimedTable(source))
    assert dataset.count_rows() == 30
    assert source.asked.pop()[0] == []
    assert dataset.count_rows(filter=pc.field("n") < 3) == 3
    assert dataset.head(2, columns=["n"]).to_pylist() == [{"n": 0}, {"n": 1}]
    assert dataset.take([3, 29], columns=["n"]).to_pylist() == [{"n": 3}, {"n": 29}]
    assert sum(len(batch) for batch in dataset.to_batches()) == 30
    source.asked.clear()
    made = dataset.to_table(columns={"twice": pc.field("n") * 2})
    assert made.to_pylist()[3] == {"twice": 6}
    assert source.asked[0][0] == ["n"]


def test_a_time_in_milliseconds_is_a_timestamp_too(source: Source) -> None:
    dataset = LogDataset(TimedTable(source))
    wanted = pc.field("at_timestamp") > pa.scalar(27_500_000, pa.timestamp("us", "UTC"))
    rows = dataset.to_table(columns=["at_timestamp", "n"], filter=wanted).to_pylist()
    assert [(row["n"], row["at_timestamp"].timestamp()) for row in rows] == [(28, 28.0), (29, 29.0)]
    asked, conditions = source.asked[0]
    assert sorted(asked) == ["at_timestamp_ms", "n"]
    assert conditions == Conditions((Condition("at_timestamp_ms", GREATER, 27_500_000 // 1000),))


def test_what_goes_past_the_scanner_fails(source: Source) -> None:
    dataset = LogDataset(TimedTable(source))
    with pytest.raises(FileNotFoundError, match="its own methods"):
        ds.dataset([dataset]).to_table()
    with pytest.raises(UsageError, match="no filter of its own"):
        dataset.filter(pc.field("n") > 3)
    with pytest.raises(UsageError, match="pickled"):
        pickle.dumps(dataset)


def test_the_error_of_a_log_is_kept() -> None:
    problem = StoreError("broken", path="log")
    dataset = LogDataset(TimedTable(Source(problem)))
    with pytest.raises(StoreError, match="broken"):
        dataset.to_table()
    assert dataset.problem is problem


def test_small_tables() -> None:
    dataset = LogDataset(TimedTable(Rows(SCHEMA, lambda: [{"n": 3, "more": 1}, {"n": 4, "text": "x"}])))
    assert dataset.to_table(columns=["text"], filter=pc.field("n") == 4).to_pylist() == [{"text": "x"}]
    assert dataset.count_rows() == 2
