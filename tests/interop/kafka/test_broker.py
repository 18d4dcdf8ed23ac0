"""A real broker serves partitions that we wrote; what it does with files that are not its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import logdex
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.interop.kafka.cases import KINDS, Case, make_log_dir, write_case
from tests.interop.kafka.peer import (
    VERSIONS,
    Lines,
    config_option,
    digests,
    needs_peers,
    read_log,
    run_broker,
    serving,
    topic_config,
)
from tests.interop.kafka.test_ping_pong import CONFIG, append
from tests.interop.kafka.writing import Written, check_consumed, check_times

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600), pytest.mark.slow]

LEADERS = {"leader-epoch-checkpoint", "partition.metadata"}
"""What a broker that leads the partition writes by itself."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """One log directory, each segment with a key index."""
    root = tmp_path_factory.mktemp("broker") / "logs"
    make_log_dir(root)
    found = {kind: write_case(root, kind) for kind in KINDS}
    for log in sorted(root.glob("*/*.log")):
        log.with_suffix(".keyindex").write_bytes(bytes(build_key_index(str(log))))
    return found


def of_partition(lines: Lines, name: str) -> Lines:
    return {kind: [line for line in found if line.get("partition") == name] for kind, found in lines.items()}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("load", ["clean", "full"])
def test_a_consumer_reads_all_that_we_wrote(cases: dict[str, Case], load: str, version: str, tmp_path: Path) -> None:
    """A fresh broker is given our files as its own. Records come by offset, by time and committed
    only; afterwards every file is as we wrote it, whether the broker trusted them or derived them
    again; key indexes are let be."""
    case = cases["plain"]
    work = tmp_path / "work"
    options = ["--mode", "broker", "--load", load, "--work", str(work), *config_option(version, case.config)]
    lines = read_log(case.root, version, *options)
    for each in cases.values():
        told = of_partition(lines, each.name)
        check_consumed(told, each.written, begin=each.start, end=each.end)
        check_times(told, each.written, begin=each.start)
        after = digests(work.with_name("work-broker") / each.name)
        for name, digest in digests(each.partition).items():
            is_old = name.endswith(".snapshot") and int(name[:20]) <= each.start
            is_refound = name.endswith(".snapshot") and load == "full" and each.start
            if name in LEADERS or is_old or is_refound:
                continue
            assert after[name] == digest, name
        assert any(name.endswith(".keyindex") for name in after)
    assert "Exception" not in "".join(str(line) for line in lines["log"])


@pytest.mark.parametrize("version", VERSIONS)
def test_key_indexes_beside_a_broker(version: str, tmp_path: Path) -> None:
    """A broker lets them be, loading cleanly and after a crash; those of segments that it removes
    it leaves behind. We go on using them, and tidy up when we open the log."""
    home = tmp_path / "home"
    settings = {**topic_config(version, CONFIG), "file.delete.delay.ms": "0"}
    run_broker(home, version, {"topics": [{"name": "pp", "config": settings}]})
    partition = home / "pp-0"
    with Log.open(str(partition), CONFIG) as log:
        written = append(log, 7)
        bases = [segment.base_offset for segment in log.segments]
    for base in bases:
        made = build_key_index(str(partition / f"{base:020d}.log"))
        (partition / f"{base:020d}.keyindex").write_bytes(bytes(made))
    before = key_indexes(partition)
    assert sorted(before) == bases

    crash = {"do": "produce", "topic": "pp", "partition": 0, "records": 20, "keys": "mod:50", "codec": "lz4"}
    run_broker(home, version, {"end": "halt", "steps": [crash]})
    assert key_indexes(partition) == before
    check_queries(partition, written, more=20)

    start = bases[1] + 2
    remove = {"do": "delete-records", "topic": "pp", "partition": 0, "before": start}
    often = {"log.retention.check.interval.ms": "300"}
    run_broker(home, version, {"broker": often, "steps": [remove, {"do": "sleep", "ms": 4000}]})
    assert min(int(path.name[:20]) for path in partition.glob("*.log")) == bases[1]
    assert key_indexes(partition) == before
    check_queries(partition, [each for each in written if each.offset >= start], more=20)

    with serving(home, version) as broker:  # with an orphan beside its segments
        lines = broker.consume("pp-0")
        assert lines["offsets"][0]["begin"] == start
    with Log.open(str(partition), CONFIG) as log:
        assert [action.path[-9:] for action in log.load_report.actions] == [".keyindex"]
    assert sorted(key_indexes(partition)) == bases[1:]


def key_indexes(partition: Path) -> dict[int, bytes]:
    return {int(path.name[:20]): path.read_bytes() for path in partition.glob("*.keyindex")}


def check_queries(partition: Path, written: list[Written], *, more: int) -> None:
    """Every key has all its records, of which a producer wrote `more` behind those that are
    known."""
    with logdex.open(partition) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        everything = [record for record in snapshot.scan().records() if not record.is_control]
        assert len([record for record in everything if record.offset > written[-1].offset]) == more
        for key in {record.key for record in everything if record.key is not None}:
            found = snapshot.query(key)
            expected = [record.offset for record in everything if record.key == key]
            assert [record.offset for record in found] == expected[::-1]
        ours = {each.offset for each in written if each.fate != "marker"}
        assert ours <= {record.offset for record in everything}
