"""Segments of every golden log directory: indexes as they lie, look-ups, and what recovery writes,
as the broker's.

A look-up's answers are compared twice: with every slot counted as Kafka counts it, where even the
index entries must be the same, and with zero tails told apart, where the answer must be.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logdex.errors import CorruptError
from logdex.kafka.files.file_names import offset_file_name
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.segment.segment_recovery import derive_segment, recover
from logdex.kafka.segment.time_index import TimeIndex
from logdex.kafka.settings.log_config import LogConfig
from tests.golden import kafka as golden_kafka

Line = dict[str, Any]
KINDS: dict[str, type[OffsetIndex] | type[TimeIndex]] = {"index": OffsetIndex, "timeindex": TimeIndex}


@pytest.fixture(params=golden_kafka.NAMES)
def case(request: pytest.FixtureRequest, golden_log: Callable[[str], Path]) -> tuple[str, Path]:
    """(name, log directory): only read."""
    return request.param, golden_log(request.param)


def settings(name: str) -> LogConfig:
    return LogConfig(index_interval_bytes=golden_kafka.index_interval_bytes(name))


def test_indexes_have_the_entries_that_kafka_reads(case: tuple[str, Path]) -> None:
    name, root = case
    for kind, index_type in KINDS.items():
        for line in golden_kafka.lines(name, "raw", kind):
            path = root / line["partition"] / offset_file_name(line["segment"], f".{kind}")
            before = (path.stat().st_size, path.stat().st_mtime_ns)
            with index_type(str(path), line["segment"]) as index:
                entries = [list(index.entry(slot)) for slot in range(index.entries)]
                assert (entries, index.slots) == (line["entries"], line["slots"]), path
                assert index.size_bytes == line["size"]
                assert index.entries == line["slots"] - line["zeroTail"]
            with index_type(str(path), line["segment"], count_zero_slots=True) as index:
                assert index.entries == line["slots"]
                if "sane" in line:
                    assert is_sane(index) == (line["sane"] == "yes"), path
            assert (path.stat().st_size, path.stat().st_mtime_ns) == before


def is_sane(index: OffsetIndex | TimeIndex) -> bool:
    try:
        index.sanity_check()
    except CorruptError:
        return False
    return True


def answer(segment: LogSegment, line: Line) -> tuple[Any, Any]:
    """(the index's entry, what is found) for the query of a line; an error stands for itself."""
    try:
        if line["kind"] == "lookup":
            return segment.offset_index.lookup(line["query"]), segment.translate_offset(line["query"])
        return segment.time_index.lookup(line["query"]), segment.find_offset_by_timestamp(line["query"])
    except CorruptError as error:
        return None, error


def expected(line: Line) -> tuple[Any, Any]:
    """The same of the real engine."""
    if line["kind"] == "lookup":
        found = (line["batchOffset"], line["position"], line["size"]) if "position" in line else None
        return (line.get("indexOffset"), line.get("indexPosition")), found
    found = (line["timestamp"], line["offset"], line.get("leaderEpoch", -1)) if "offset" in line else None
    return (line.get("indexTimestamp"), line.get("indexOffset")), found


def check_answer(line: Line, entry: Any, found: Any, *, with_entry: bool, old: bool) -> None:
    want_entry, want = expected(line)
    if "error" in line:
        # Kafka looks one batch further than it needs to, and may meet the damage there: then an
        # answer is right too
        assert isinstance(found, CorruptError) or found is not None, line
        return
    if old and line["kind"] == "lookup" and want is not None:
        assert found is not None, line
        assert found[1:] == want[1:], line  # 3.9 gives the last offset, 4.x the first
    else:
        assert found == want, line
    if with_entry:
        assert entry == want_entry, line


def looked_up(name: str) -> dict[tuple[str, int], list[Line]]:
    """The look-ups in each segment as it lies, but for those whose batches' headers were harmed."""
    lines = golden_kafka.lines(name, "raw", "lookup") + golden_kafka.lines(name, "raw", "timelookup")
    harmed = golden_kafka.segments_of_harmed_headers(name)
    return {place: asked for place, asked in golden_kafka.by_segment(lines).items() if place not in harmed}


@pytest.mark.parametrize("count_zero_slots", [True, False])
def test_lookups_answer_as_kafka_on_the_directory_as_it_is(case: tuple[str, Path], count_zero_slots: bool) -> None:
    name, root = case
    old = golden_kafka.manifest(name)["kafka"].startswith("3.")
    for (partition, base), asked in looked_up(name).items():
        with LogSegment(str(root / partition), base, settings(name), count_zero_slots=count_zero_slots) as segment:
            for line in asked:
                check_answer(line, *answer(segment, line), with_entry=count_zero_slots, old=old)


def test_bulk_lookups_answer_as_single_ones(case: tuple[str, Path]) -> None:
    name, root = case
    for (partition, base), asked in looked_up(name).items():
        with LogSegment(str(root / partition), base, settings(name)) as segment:
            good = [line for line in asked if not isinstance(answer(segment, line)[1], CorruptError)]
            offsets = [line["query"] for line in good if line["kind"] == "lookup"]
            times = [line["query"] for line in good if line["kind"] == "timelookup"]
            # enough of them that the headers are scanned and not each looked up
            many = max(1, segment.size_bytes // (200_000 * max(1, min(len(offsets), len(times)))) + 1)
            for rows, queries, single in (
                (segment.translate_offsets(offsets * many), offsets, segment.translate_offset),
                (segment.find_offsets_by_timestamps(times * many), times, segment.find_offset_by_timestamp),
            ):
                wanted = [single(query) or (-1, -1, -1) for query in queries]
                np.testing.assert_array_equal(rows, np.array(wanted * many, np.int64).reshape(-1, 3))


def test_recovery_derives_the_brokers_bytes(case: tuple[str, Path]) -> None:
    name, root = case
    digests = {
        (line["partition"], line["name"]): (line["size"], line["sha256"])
        for line in golden_kafka.lines(name, "recovered", "file")
    }
    for line in golden_kafka.lines(name, "recovered", "recovered"):
        partition, base = line["partition"], line["segment"]
        log = str(root / partition / offset_file_name(base, ".log"))
        derived = derive_segment(log, base, settings(name).index_interval_bytes)
        for suffix, data in ((".index", derived.offset_index), (".timeindex", derived.time_index)):
            found = (len(data), hashlib.sha256(data).hexdigest())
            assert found == digests[partition, offset_file_name(base, suffix)], (partition, base, suffix)
        assert derived.truncated_bytes == line["truncatedBytes"]
        assert derived.size_bytes == line["size"]
        assert derived.next_offset == line["nextOffset"]


def test_a_recovered_segment_answers_as_kafkas(case: tuple[str, Path], tmp_path: Path) -> None:
    name, root = case
    old = golden_kafka.manifest(name)["kafka"].startswith("3.")
    lines = golden_kafka.lines(name, "recovered", "lookup") + golden_kafka.lines(name, "recovered", "timelookup")
    cut = {
        (line["partition"], line["segment"]): line["size"]
        for line in golden_kafka.lines(name, "recovered", "recovered")
    }
    for (partition, base), asked in golden_kafka.by_segment(lines).items():
        directory = tmp_path / partition
        directory.mkdir(exist_ok=True)
        log_name = offset_file_name(base, ".log")
        (directory / log_name).write_bytes((root / partition / log_name).read_bytes())
        recover(str(directory), base, settings(name))
        assert (directory / log_name).stat().st_size == cut[partition, base]
        with LogSegment(str(directory), base, settings(name)) as segment:
            for line in asked:
                check_answer(line, *answer(segment, line), with_entry=True, old=old)


def test_segments_behind_one_that_is_cut_are_dropped(case: tuple[str, Path]) -> None:
    """The loader's rule, from what `derive_segment` says of each."""
    name, root = case
    dropped = {(line["partition"], line["segment"]) for line in golden_kafka.lines(name, "recovered", "dropped")}
    for partition in {line["partition"] for line in golden_kafka.lines(name, "recovered", "recovered")}:
        cut, found = False, set()
        for path in sorted((root / partition).glob("*.log")):
            base = int(path.stem)
            if cut:
                found.add((partition, base))
                continue
            cut = derive_segment(str(path), base, settings(name).index_interval_bytes).truncated_bytes > 0
        assert found == {key for key in dropped if key[0] == partition}
