"""What lies in every golden log directory, as a snapshot reads it: records, offsets, look-ups, what
a consumer sees.

The real broker's answers come from its load of the directory. Where damage was done, it loads less
than what lies there (it cuts a log at the first bad batch); such partitions are compared with what
the real classes read in the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_json import record_to_json
from logdex.kafka.scan.scanner import EndKind
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.directories import tree_hash
from tests.examples import examples
from tests.golden import kafka as golden_kafka
from tests.golden.kafka import Line

Case = tuple[str, Path, LogDirSnapshot]


@pytest.fixture(scope="module", params=golden_kafka.NAMES)
def case(request: pytest.FixtureRequest, golden_log: Any) -> Iterator[Case]:
    """(name, directory, snapshot); nothing of it may have changed at the end."""
    name = request.param
    root = golden_log(name)
    before = tree_hash(root)
    snapshot = logdex.open(root, index_interval_bytes=golden_kafka.index_interval_bytes(name))
    assert isinstance(snapshot, LogDirSnapshot)
    with snapshot:
        yield name, root, snapshot
    assert tree_hash(root) == before


def by_partition(lines: Iterator[Line] | list[Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line["partition"], []).append(line)
    return found


@cache
def bad_partitions(name: str) -> set[str]:
    """Partitions with a batch whose checksum is wrong."""
    lines = golden_kafka.records(name)
    return {line["partition"] for line in lines if line["kind"] == "batch" and not line["valid"]}


def untimed_records(name: str) -> dict[str, list[tuple[int, int]]]:
    """(timestamp, offset) of all records, in order, of the partitions with batches of magic 0. A
    broker takes the time at which such a segment was last written for its records' and looks no
    further; a snapshot, of copies, does."""
    found = [line for line in golden_kafka.records(name) if line["kind"] in ("batch", "record")]
    untimed = {line["partition"] for line in found if line.get("magic") == 0}
    return {
        partition: [(each["timestamp"], each["offset"]) for each in found if is_record_of(each, partition)]
        for partition in untimed
    }


def is_record_of(line: Line, partition: str) -> bool:
    return bool(line["kind"] == "record" and line["partition"] == partition)


def check_value(value: bytes | None, text: str | None, line: Line) -> None:
    """Long values are a length and a digest in the lines."""
    if "valueSize" in line:
        assert value is not None
        assert (len(value), hashlib.sha256(value).hexdigest()) == (line["valueSize"], line["valueSha256"])
    else:
        assert text == line["value"]


def test_every_record_is_read(case: Case) -> None:
    name, _, snapshot = case
    wanted = by_partition(line for line in golden_kafka.records(name) if line["kind"] == "record")
    for partition, one in snapshot.partitions.items():
        scan = one.scan(control=True)
        lines = wanted.pop(partition, [])
        records = list(scan)
        assert len(records) == len(lines)
        for record, line in zip(records, lines, strict=True):
            found = record_to_json(record, topic=one.topic, partition=one.partition)
            assert f"{found['topic']}-{found['partition']}" == partition
            assert record.is_control == ("controlType" in line)
            assert (record.offset, record.timestamp_ms, record.sequence) == (
                line["offset"],
                line["timestamp"],
                line["sequence"],
            )
            assert (found["key"], found["headers"]) == (line["key"], line["headers"])
            check_value(record.value, found["value"], line)
        assert bool(scan.problems) == (partition in bad_partitions(name))
    assert not wanted


def test_the_batches_that_are_passed_over_are_told(case: Case) -> None:
    name, root, snapshot = case
    scan = snapshot.scan()
    list(scan)
    wanted = {
        (str(root / line["partition"] / f"{line['segment']:020d}.log"), line["position"])
        for line in golden_kafka.records(name)
        if line["kind"] == "batch" and not line["valid"]
    }
    assert {(problem.path, problem.position) for problem in scan.problems} == wanted
    damage = golden_kafka.manifest(name).get("damage") or []
    cut = {str(root / each["file"]) for each in damage if each["op"] == "cut"}
    torn = {end.segment.log.path for end in scan.ends if end.end.kind is EndKind.TORN}
    assert torn <= cut
    assert scan.is_good == (not wanted and not torn)


def test_arrow_batches_say_the_same(case: Case) -> None:
    _, _, snapshot = case
    table = snapshot.scan(control=True).arrow_reader(["partition", "offset", "topic", "value"]).read_all()
    assert table.schema.names == ["partition", "offset", "topic", "value"]
    rows = [
        (one.partition, record.offset, one.topic, record.value) for one, record in snapshot.scan(control=True).items()
    ]
    columns = [table.column(name).to_pylist() for name in table.schema.names]
    assert list(zip(*columns, strict=True)) == rows


@pytest.mark.parametrize("load", ["clean", "unclean", "full"])
def test_offsets_are_those_of_the_brokers_load(case: Case, load: str) -> None:
    name, _, snapshot = case
    bad = golden_kafka.cut_partitions(name)
    for line in golden_kafka.lines(name, f"loaded.{load}", "log"):
        one = snapshot.partitions[line["partition"]]
        if "failed" not in line and line["partition"] not in bad:
            assert one.log_start_offset == line["logStartOffset"]
            assert one.log_end_offset == line["logEndOffset"]
            assert one.last_stable_offset == line["lastStableOffset"]
            assert [segment.base_offset for segment in one.segments] == [each["base"] for each in line["segments"]]


def test_consumers_see_the_same_records(case: Case) -> None:
    name, _, snapshot = case
    bad = golden_kafka.cut_partitions(name)
    for line in golden_kafka.lines(name, "broker", "messages"):
        if line["partition"] in bad:
            continue
        one = snapshot.partitions[line["partition"]]
        wanted = [offset for first, last in line["offsets"] for offset in range(first, last + 1)]
        assert [record.offset for record in one.scan(isolation=line["isolation"])] == wanted
        found: list[int] = []
        while one.log_start_offset < one.log_end_offset:
            read = one.read(found[-1] + 1 if found else one.log_start_offset, 2_000, isolation=line["isolation"])
            if not read:
                break
            found += [record.offset for record in read]
        assert found == wanted
    for line in golden_kafka.lines(name, "broker", "offsets"):
        if line["partition"] not in bad:
            one = snapshot.partitions[line["partition"]]
            end = one.last_stable_offset if line["isolation"] == "read_committed" else one.log_end_offset
            assert (one.log_start_offset, end) == (line["begin"], line["end"])


def test_offsets_for_times_are_the_brokers(case: Case) -> None:
    name, _, snapshot = case
    bad, untimed = golden_kafka.cut_partitions(name), untimed_records(name)
    for line in golden_kafka.lines(name, "broker", "offsetForTime"):
        if line["partition"] not in bad:
            one = snapshot.partitions[line["partition"]]
            found = one.offset_for_timestamp(line["query"])
            wanted = (line["offset"], line["timestamp"]) if "offset" in line else None
            if wanted is None and line["partition"] in untimed:
                later = (each for each in untimed[line["partition"]] if each[0] >= line["query"])
                wanted = next(((offset, at) for at, offset in later if offset >= one.log_start_offset), None)
            assert (None if found is None else (found.offset, found.timestamp_ms)) == wanted, line


def test_look_ups_of_segments_are_the_real_engines(case: Case) -> None:
    name, _, snapshot = case
    old = golden_kafka.manifest(name)["kafka"].startswith("3.")
    harmed = golden_kafka.segments_of_harmed_headers(name)
    for line in golden_kafka.lines(name, "raw"):
        if line["kind"] not in ("lookup", "timelookup") or "error" in line:
            continue
        if (line["partition"], line["segment"]) in harmed:
            continue
        segment = snapshot.partitions[line["partition"]].segment(line["segment"])
        answer: tuple[int, ...] | None
        wanted: tuple[int, ...] | None
        if line["kind"] == "lookup":
            batch = segment.translate_offset(line["query"])
            answer = None if batch is None else (batch.offset, batch.position, batch.size_bytes)
            wanted = (line["batchOffset"], line["position"], line["size"]) if "position" in line else None
            if old and answer is not None and wanted is not None:  # 3.9 gives a batch's last offset
                answer, wanted = answer[1:], wanted[1:]
        else:
            record = segment.find_offset_by_timestamp(line["query"])
            answer = None if record is None else (record.offset, record.timestamp_ms)
            wanted = (line["offset"], line["timestamp"]) if "offset" in line else None
        assert answer == wanted, line


def test_every_key_is_found_newest_first(case: Case) -> None:
    _, _, snapshot = case
    for one in snapshot.partitions.values():
        records = list(one.scan())
        keys = sorted({record.key for record in records if record.key is not None})
        for key in keys[:: max(len(keys) // examples(4), 1)]:
            wanted = [record for record in reversed(records) if record.key == key]
            problems: list[Any] = []
            assert one.query(key, problems=problems) == wanted
            assert one.query(key, max=1, problems=problems) == wanted[:1]
            at = wanted[-1].timestamp_ms
            assert one.query(key, at, at, problems=problems) == [each for each in wanted if each.timestamp_ms == at]


def test_each_segment_by_itself(case: Case) -> None:
    _, _, snapshot = case
    for one in snapshot.partitions.values():
        scanned = {record.offset: record for record in one.scan(control=True)}
        found: dict[int, Record] = {}
        for segment in one.segments:
            with logdex.open(segment.log.path) as alone:
                assert isinstance(alone, PartitionSnapshot)
                assert [each.base_offset for each in alone.segments] == [segment.base_offset]
                assert (alone.topic, alone.partition) == (one.topic, one.partition)
                found |= {record.offset: record for record in alone.scan(control=True)}
        assert found == scanned
