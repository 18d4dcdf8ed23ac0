"""Imports that are killed, or lose power, at any operation: nothing that is half done has a name in
the output, and the same command again ends with what an undisturbed one gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import logdex
from logdex.convert.load import load
from logdex.errors import UsageError
from logdex.formats import detect, format_of
from logdex.io.env import Env
from logdex.io.name_changes import STAGING_PREFIX
from logdex.jobs.journal import LOCK_NAME
from logdex.testing import Fault, FaultEnv, Killed
from tests.crash.trees import EVERY, Fresh, chosen
from tests.examples import cases

Rows = list[dict[str, Any]]
BY_CHANCE = frozenset(("store_timestamp_ms", "unique_key", "properties", "body_crc", "msg_id"))
"""What an import of rows without these chooses itself, or what follows from it."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of rows with columns of both formats."""
    folder = tmp_path_factory.mktemp("imported")
    times = pa.array([1_700_000_000_000_000 + 1_000 * at for at in range(10)], pa.timestamp("us", "UTC"))
    for number in range(2):
        rows = {
            "topic": ["orders", "events"] * 5,
            "partition": pa.array([0, 1] * 5, pa.int32()),
            "queueId": pa.array([0, 1] * 5, pa.int32()),
            "value": [b"%d-%d" % (number, at) for at in range(10)],
            "body": [b"%d-%d" % (number, at) for at in range(10)],
            "timestamp": times,
            "bornTimestamp": times,
            "offset": [5 * number + at // 2 for at in range(10)],
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    return folder


SIZES = {"mapped_file_size_commit_log": 1 << 16, "max_hash_slot_num": 7, "max_index_num": 50}


def run(tables: Path, output: Path, format_name: str, env: Env, *, sync: bool = True) -> None:
    settings = SIZES if format_name == "rocketmq" else None
    load(str(tables), str(output), format_name, settings=settings, sync=sync, env=env)


def found_in(output: Path, format_name: str) -> Rows:
    """The messages or records of a complete import, whose directory is sound."""
    settings = SIZES if format_name == "rocketmq" else {}
    assert [path.name for path in output.iterdir() if path.name.startswith((STAGING_PREFIX, LOCK_NAME))] == []
    found = detect(str(output))
    assert format_of(found).verify(found, settings, max_findings=10).findings == []
    with logdex.open(output, **settings) as snapshot:  # type: ignore[arg-type]
        rows = snapshot.scan().to_arrow().read_all().to_pylist()
    return [{name: value for name, value in row.items() if name not in BY_CHANCE} for row in rows]


def run_again(tables: Path, output: Path, format_name: str) -> None:
    """The command again. What a killed run was publishing is published first; then there is nothing
    to do, and the command says that the output is not empty."""
    try:
        run(tables, output, format_name, Env(), sync=False)
    except UsageError as error:
        if "is not empty" not in str(error):
            raise


@EVERY
@pytest.mark.parametrize("format_name", cases(["kafka", "rocketmq"], 2, first=1))
def test_killed_at_operations(tables: Path, fresh: Fresh, format_name: str, every: int) -> None:
    folder = fresh()
    counting = FaultEnv(str(folder))
    run(tables, folder / "out", format_name, counting)
    right = found_in(folder / "out", format_name)
    assert len(right) == 20
    places = chosen(counting.log, every)
    for at in places if every == 1 else places[:: max(len(places) // 8, 1)]:
        folder = fresh()
        env = FaultEnv(str(folder), Fault(at))
        with pytest.raises(Killed):
            run(tables, folder / "out", format_name, env)
        env.release()
        left = folder / "left"
        env.survivor(str(left), seed=at)
        for output in (folder / "out", left / "out"):
            run_again(tables, output, format_name)
            assert found_in(output, format_name) == right, at
