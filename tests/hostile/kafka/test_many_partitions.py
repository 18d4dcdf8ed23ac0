"""Log directories of thousands of partitions under a small limit of open files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import logdex
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from tests.hostile.few_descriptors import run_json_limited, run_limited

SEGMENTS = 3

LOOK_UPS = """
import json
import logdex
with logdex.open(sys.argv[1]) as snapshot:
    found = [each.offset_for_timestamp(1001).offset for each in snapshot.partitions.values()]
    again = [each.offset_for_timestamp(1000 + 2).offset for each in snapshot.partitions.values()]
    rows = sum(batch.num_rows for batch in snapshot.scan().arrow_reader())
print(json.dumps([found, again, rows]))
"""


def make(root: Path, partitions: int) -> None:
    """Copies of one partition, whose directory is removed in the end."""
    with Log.open(str(root / "first-0"), segment_index_bytes=240) as log:
        for number in range(SEGMENTS):
            log.append([Record(b"k", b"v %d" % number, timestamp_ms=1000 + number)])
            if number + 1 < SEGMENTS:
                log.roll()
    for number in range(partitions):
        shutil.copytree(root / "first-0", root / f"events-{number}")
    shutil.rmtree(root / "first-0")
    (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=some\n")


@pytest.mark.parametrize("partitions", [100, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_many_partitions_under_a_small_limit(tmp_path: Path, partitions: int) -> None:
    root = tmp_path / "logs"
    root.mkdir()
    make(root, partitions)
    told = run_json_limited("info", root)
    assert sum(each.get("log_end_offset") == SEGMENTS for each in told) == partitions
    found, again, rows = json.loads(run_limited("-c", LOOK_UPS, root))
    assert (found, again, rows) == ([1] * partitions, [2] * partitions, SEGMENTS * partitions)
    last = run_json_limited("verify", root)[-1]
    assert last["files"] > 3 * partitions


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "logs"
    root.mkdir()
    make(root, 300)
    return root


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "command",
    [
        *(["rebuild"], ["recover"], ["filter"], ["export"], ["dispatch"]),
        *(["rebuild", "--jobs", "2"], ["convert", "--to", "rocketmq"], ["convert", "--to", "rocketmq", "--jobs", "2"]),
    ],
    ids=" ".join,
)
def test_every_job_under_a_small_limit(command: list[str], logs: Path, tmp_path: Path) -> None:
    name, *options = command
    copy = tmp_path / "logs"
    shutil.copytree(logs, copy)
    run_json_limited(name, copy, *options, "--output", tmp_path / "out")
    made = "**/*.parquet" if name == "export" else "**/*.index" if name == "rebuild" else "**/*"
    assert next((tmp_path / "out").glob(made))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_import_under_a_small_limit(logs: Path, tmp_path: Path) -> None:
    run_limited("export", logs, "--output", tmp_path / "lake")
    run_limited("import", tmp_path / "lake", "--format", "kafka", "--output", tmp_path / "out")
    with logdex.open_log_dir(tmp_path / "out") as made:
        assert made.scan().to_arrow().read_all().num_rows == SEGMENTS * 300


@pytest.mark.slow
@pytest.mark.parametrize("command", ["cat", "stats"])
def test_every_record_is_read_under_a_small_limit(command: str, logs: Path) -> None:
    told = run_json_limited(command, logs)
    assert json.dumps(told).count('"topic"') >= 1
    if command == "cat":
        assert sum("offset" in each and "topic" in each for each in told) == SEGMENTS * 300
