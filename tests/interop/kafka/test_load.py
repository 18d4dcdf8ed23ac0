"""The real broker's classes load partitions that we wrote: as they are, with the clean mark, and by
recovering them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from logdex.kafka.log.log import Log
from logdex.kafka.segment.log_segment import LogSegment
from tests.interop.kafka.cases import KINDS, Case, make_log_dir, write_case
from tests.interop.kafka.peer import VERSIONS, Line, Lines, digests, needs_peers, told_digests
from tests.interop.kafka.writing import Written, uncommitted

pytestmark = [pytest.mark.needs_java, needs_peers, pytest.mark.timeout(600)]

SLOW = pytest.mark.slow
LOADS = [
    pytest.param(kind, load, version, marks=[] if (kind, load, version) == ("plain", "unclean", "4.4.0") else SLOW)
    for kind in KINDS
    for load in ("marker", "clean", "unclean", "full")
    for version in VERSIONS
]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    root = tmp_path_factory.mktemp("load") / "logs"
    make_log_dir(root)
    return {kind: write_case(root, kind) for kind in KINDS}


# -- the log itself, as the broker loads it ------------------------------------------------------
@pytest.mark.parametrize(("kind", "load", "version"), LOADS)
def test_the_broker_loads_what_we_wrote(
    cases: dict[str, Case], kind: str, load: str, version: str, tmp_path: Path
) -> None:
    """With the mark it trusts our files; without it derives them again. Either way they stay as
    they are."""
    case = cases[kind]
    before = digests(case.partition)
    lines = case.read_log(version, "--mode", "log", "--load", load)
    assert lines["run"][0]["clean"] is (load in ("marker", "clean"))
    log = lines["log"][0]
    assert "failed" not in log, log
    stable = next(each.offset for each in case.written if each.fate == "open")
    assert (log["logStartOffset"], log["logEndOffset"], log["lastStableOffset"]) == (case.start, case.end, stable)
    assert log["recoveryPoint"] == (case.start if load == "full" else case.end)
    assert log["latestEpoch"] in ("Optional[1]", "Some(1)")
    told = told_digests(lines)
    if load != "full" or not case.start:  # producers are found again that are in the log from its start on
        assert told == without_old_snapshots(before, case.start)
    check_records(lines, case)
    copy = copy_for_load(case, load, tmp_path)
    with Log.open(str(copy), case.config) as ours:
        assert ours.load_report.was_clean is lines["run"][0]["clean"]
        assert all(action.path.endswith(".snapshot") for action in ours.load_report.actions)
        check_segments(log, ours)
        check_lookups(lines, ours.segments, version)
        check_producers(log["producers"], ours)
    assert digests(copy) == told


def copy_for_load(case: Case, load: str, target: Path) -> Path:
    """The partition in a copy of its log directory, which lacks what `load` takes away."""
    root = shutil.copytree(case.root, target / "logs")
    if load in ("unclean", "full"):
        (root / ".kafka_cleanshutdown").unlink()
    if load == "full":
        (root / "recovery-point-offset-checkpoint").unlink()
    return root / case.name


def without_old_snapshots(files: dict[str, tuple[int, str]], start: int) -> dict[str, tuple[int, str]]:
    """Loading removes the snapshots of producers up to the log's start."""
    return {name: file for name, file in files.items() if not (name.endswith(".snapshot") and int(name[:20]) <= start)}


def check_records(lines: Lines, case: Case) -> None:
    """Every record that Kafka's classes read from the files, control records aside."""
    controls = {line["position"] + (line["segment"] << 32) for line in lines["batch"] if line["control"]}
    assert all(line["valid"] for line in lines["batch"])
    told = [line for line in lines["record"] if line["position"] + (line["segment"] << 32) not in controls]
    first = told[0]["offset"]
    expected = uncommitted([each for each in case.written if each.offset >= first])
    assert [line["offset"] for line in told] == [each.offset for each in expected]
    for line, each in zip(told, expected, strict=True):
        got = Written.told({**line, "timestampType": each.timestamp_type, "leaderEpoch": each.leader_epoch})
        assert got == each
    assert {line["timestampType"] for line in lines["batch"] if not line["control"]} == {
        each.timestamp_type for each in expected
    }
    codecs = {line["codec"] for line in lines["batch"]}
    assert codecs == {"none", "gzip", "snappy", "lz4", "zstd"}


def check_segments(log: Line, ours: Log) -> None:
    expected = [
        (
            segment.base_offset,
            segment.size_bytes,
            segment.offset_index.entries,
            segment.time_index.entries,
            segment.largest_timestamp_ms,
        )
        for segment in ours.segments
    ]
    fields = ("base", "size", "offsetIndexEntries", "timeIndexEntries", "largestTimestamp")
    assert [tuple(line[field] for field in fields) for line in log["segments"]] == expected


def check_lookups(lines: Lines, segments: Sequence[LogSegment], version: str) -> None:
    """Each of Kafka's look-ups in our files has our own answer."""
    by_base = {segment.base_offset: segment for segment in segments}
    assert lines["lookup"]
    assert lines["timelookup"]
    for line in lines["lookup"]:
        segment = by_base[line["segment"]]
        entry, found = segment.offset_index.lookup(line["query"]), segment.translate_offset(line["query"])
        assert (line["indexOffset"], line["indexPosition"]) == (entry.offset, entry.position)
        told = (line["position"], line["size"]) if "position" in line else None
        assert told == ((found.position, found.size_bytes) if found else None), line
        if found and version.startswith("4"):  # 3.9 tells the batch's last offset
            assert line["batchOffset"] == found.offset
    for line in lines["timelookup"]:
        segment = by_base[line["segment"]]
        stamp, at = segment.time_index.lookup(line["query"]), segment.find_offset_by_timestamp(line["query"])
        assert (line["indexTimestamp"], line["indexOffset"]) == (stamp.timestamp_ms, stamp.offset)
        assert (line.get("offset"), line.get("timestamp")) == ((at.offset, at.timestamp_ms) if at else (None, None))


def check_producers(told: list[Line], ours: Log) -> None:
    """The broker has in memory what our `Log` has."""
    assert told
    for line in told:
        state = ours.producer(line["producerId"])
        assert state is not None
        assert (line["epoch"], line["lastSequence"], line["lastDataOffset"], line["lastTimestamp"]) == (
            state.producer_epoch,
            state.last_sequence,
            state.last_offset,
            state.last_timestamp_ms,
        )
        found = (line["currentTxnFirstOffset"], line["coordinatorEpoch"])
        assert found == (state.current_txn_first_offset, state.coordinator_epoch)


@pytest.mark.parametrize("kind", ["plain", *(pytest.param(kind, marks=SLOW) for kind in ("stamped", "legacy"))])
@pytest.mark.parametrize("version", [VERSIONS[0], pytest.param(VERSIONS[1], marks=SLOW)])
def test_what_recovery_rebuilds_is_what_we_wrote(cases: dict[str, Case], kind: str, version: str) -> None:
    """LogSegment.recover derives indexes, snapshots and epochs from the bare logs; they are those
    of the live log."""
    before = digests(cases[kind].partition)
    lines = cases[kind].read_log(version, "--mode", "recover")
    assert all(line["truncatedBytes"] == 0 for line in lines["recovered"])
    assert told_digests(lines) == before
    suffixes = {name[20:] for name in before}
    assert {".log", ".index", ".timeindex", ".txnindex", ".snapshot"} <= suffixes
