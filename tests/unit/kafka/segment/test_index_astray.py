"""Indexes that lead astray or are cut while they are opened, and segments that end early: told,
never followed."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logdex.errors import CorruptError, TruncatedError
from logdex.io.env import Env, MappedBytes, ReadFile
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.log.log import Log
from logdex.kafka.rebuild import rebuild
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.offset_index import OffsetIndex
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.crc32c import crc32c_by_table
from tests.unit.kafka.batch.batch_bytes import batch, record

SETTINGS: dict[str, Any] = {"index_interval_bytes": 0, "segment_index_bytes": 120}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Two segments, at 0 and 5, of five batches of one record each."""
    path = tmp_path / "events-0"
    with Log.open(str(path), **SETTINGS) as log:
        for offset in range(10):
            if offset == 5:
                log.roll()
            log.append(Record(value=b"%d" % offset, timestamp_ms=1000 + offset))
    return path


def point(path: Path, base: int, slot: int, position: int) -> None:
    """Makes an entry of an .index say another position."""
    file = path / f"{base:020d}.index"
    data = bytearray(file.read_bytes())
    struct.pack_into(">i", data, 8 * slot + 4, position)
    file.write_bytes(data)


@pytest.mark.parametrize("position", [4 * 71, 1 << 20])
def test_an_entry_that_passes_over_batches_is_told(path: Path, position: int) -> None:
    with LogSegment(str(path), 0) as segment:
        size = segment.size_bytes // 5
        assert segment.locate(2) == segment.translate_offset(2)
    point(path, 0, 1, 4 * size if position < 1000 else position)  # that of offset 2
    with LogSegment(str(path), 0) as segment, pytest.raises(CorruptError, match="leads to a wrong position") as told:
        segment.locate(2)
    assert told.value.path.endswith(".index")
    with open_kafka(str(path)) as snapshot:
        assert [found.value for found in snapshot.scan(offset=2, limit=2)] == [b"2", b"3"]
    with Log.open(str(path), **SETTINGS) as log, pytest.raises(CorruptError, match="leads to a wrong position"):
        log.read(2)


def test_a_last_entry_behind_the_logs_end_is_mended_on_opening(path: Path) -> None:
    point(path, 5, 3, 1 << 20)
    with Log.open(str(path), **SETTINGS) as log:
        assert log.load_report.recovered == [5]
        assert log.append(Record(value=b"10")).first_offset == 10
        assert [found.value for found in log.read(9)] == [b"9", b"10"]


def test_a_torn_end_takes_its_index_entries_along(path: Path) -> None:
    last = path / f"{5:020d}.log"
    last.write_bytes(last.read_bytes()[:-3])
    mark = path / ".logdex-clean"
    mark.write_text(f"{last.name} {last.stat().st_size}\n")
    with Log.open(str(path), **SETTINGS) as log:
        assert log.load_report.was_clean
        assert log.append(Record(value=b"again")).first_offset == 9
        assert [found.value for found in log.read(9)] == [b"again"]
    with LogSegment(str(path), 5) as segment:
        assert [segment.offset_index.entry(slot).offset for slot in range(segment.offset_index.entries)] == [6, 7, 8]


def test_a_segment_that_ends_within_a_batch_is_not_passed_over(path: Path) -> None:
    first = path / f"{0:020d}.log"
    first.write_bytes(first.read_bytes()[:-3])
    with Log.open(str(path), **SETTINGS) as log:
        with pytest.raises(TruncatedError, match="another one follows"):
            log.read(0)
        with pytest.raises(TruncatedError, match="another one follows"):
            log.read(4)
        assert [found.value for found in log.read(5, max_records=1)] == [b"5"]


@pytest.mark.parametrize("delta", [-1, -(1 << 31), 1])
def test_a_batch_whose_header_hides_offsets_is_not_passed_over(path: Path, delta: int) -> None:
    with Log.open(str(path), **SETTINGS) as log:
        log.append([Record(value=b"%d" % number, timestamp_ms=2000) for number in (10, 11, 12)])
        log.append(Record(value=b"13", timestamp_ms=2000))
    with LogSegment(str(path), 5) as segment:
        place = segment.locate(12)
        assert place is not None
    file = path / f"{5:020d}.log"
    data = bytearray(file.read_bytes())
    struct.pack_into(">i", data, place.position + 23, delta)  # lastOffsetDelta, which the checksum covers
    file.write_bytes(data)
    with Log.open(str(path), **SETTINGS) as log:
        assert log.load_report.was_clean
        for offset in (9, 11, 12):
            with pytest.raises(CorruptError, match=r"\[crc\]") as told:
                list(log.records(offset))
            assert (told.value.path, told.value.position) == (str(file), place.position)
        assert [found.value for found in log.read(13)] == [b"13"]
    with open_kafka(str(path)) as snapshot:
        scan = snapshot.scan(offset=11)
        assert [found.value for found in scan] == [b"13"]
        assert [(told.path, told.position) for told in scan.problems] == [(str(file), place.position)]


def put_control_type(path: Path, position: int, control_type: int, *, with_crc: bool) -> None:
    """Makes the marker batch at `position` of a .log say another type."""
    data = bytearray(path.read_bytes())
    marker = decode_batch(data, position)[0]
    at = bytes(marker.raw).index(struct.pack(">hh", 0, marker.control_type), 61)
    struct.pack_into(">h", data, position + at + 2, control_type)
    if with_crc:
        struct.pack_into(
            ">I", data, position + 17, crc32c_by_table(bytes(data[position + 21 : position + marker.size_bytes]))
        )
    path.write_bytes(data)


@pytest.mark.parametrize("with_crc", [False, True])
def test_a_marker_of_a_type_that_there_is_not(tmp_path: Path, with_crc: bool) -> None:
    path = tmp_path / "tx-0"
    with Log.open(str(path)) as log:
        log.append(Record(value=b"0"))
        log.append(Record(value=b"1"), producer_id=7, producer_epoch=0, transactional=True)
        log.append_end_marker(7, 0, commit=True)
        log.append(Record(value=b"3"))
    for name in path.glob("*.snapshot"):
        name.unlink()  # what the log itself says of producers is wanted
    file = path / f"{0:020d}.log"
    with LogSegment(str(path), 0) as segment:
        marker = segment.translate_offset(2)
        assert marker is not None
    put_control_type(file, marker.position, 0x2000, with_crc=with_crc)
    with open_kafka(str(path)) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        assert snapshot.last_stable_offset == 1  # the transaction has no end
        [problem] = snapshot.problems
        assert isinstance(problem, CorruptError)
        assert (problem.path, problem.position) == (str(file), marker.position)
        assert [found.value for found in snapshot.scan(isolation="read_committed")] == [b"0"]
    (path / ".logdex-clean").unlink()
    if with_crc:
        with pytest.raises(CorruptError, match="control record has type 8192") as told:
            Log.open(str(path))
        assert (told.value.path, told.value.position) == (str(file), marker.position)
    else:
        with Log.open(str(path)) as log:  # cut at the bad batch, as a broker does
            assert [found.value for found in log.records(0)] == [b"0", b"1"]


class _CutWhenMapped(Env):
    """Cuts an index down once it has been mapped, as a broker does that rolls or ends."""

    def open_read(self, path: str) -> ReadFile:
        file = super().open_read(path)
        whole = file.map

        def map_and_cut(*, partly: bool = False) -> MappedBytes:
            mapped = whole(partly=partly)
            os.truncate(path, 8)
            return mapped

        file.map = map_and_cut  # type: ignore[method-assign]
        return file


def test_an_index_that_is_cut_while_it_is_opened(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.index"
    path.write_bytes(struct.pack(">ii", 5, 70))
    os.truncate(path, 10 << 20)
    with OffsetIndex(str(path), 0, env=_CutWhenMapped()) as index:  # to touch what was cut off would be a SIGBUS
        assert (index.entries, index.lookup(9)) == (1, (5, 70))


def test_batches_within_a_bad_batch_are_not_the_logs() -> None:
    inner = batch(record(0, 0, b"k", b"inner"), 1, base_offset=77)
    bad = bytearray(batch(record(0, 0, b"k", inner), 1, base_offset=1))
    bad[30] ^= 1
    behind = batch(record(0, 0, b"k", b"behind"), 1, base_offset=2)
    for data, expected in ((bytes(bad) + behind, len(bad)), (bytes(bad), -1)):
        array = np.frombuffer(data, np.uint8)
        scan = BatchScanner().scan_bytes(array)
        with pytest.raises(StopIteration) as stop:
            next(scan)
        assert LogResume(array).behind(stop.value.value).position == expected


@pytest.mark.parametrize("zeros", [0, 2, 40])
@pytest.mark.parametrize("behind", [0, 1])
def test_batches_that_a_wrong_length_swallows_are_the_logs(zeros: int, behind: int) -> None:
    bad = bytearray(batch(record(0, 0, b"k", b"bad"), 1, base_offset=5))
    following = [batch(record(0, 0, b"k", b"next"), 1, base_offset=offset) for offset in (9, 10)]
    struct.pack_into(">i", bad, 8, len(bad) + len(following[0]) + len(following[1]) - 12 + zeros)
    last = [batch(record(0, 0, b"k", b"last"), 1, base_offset=11)] * behind
    array = np.frombuffer(b"".join([bad, *following, bytes(zeros), *last]), np.uint8)
    scanner = BatchScanner()
    assert list(scanner.scan_bytes(array)) == []
    assert LogResume(array).behind(scanner.end).position == len(bad)


@pytest.mark.parametrize("headers", [[], [(b"h", b"x")]])
@pytest.mark.parametrize("behind", [0, 1])
def test_batches_in_a_bad_batchs_value_are_not(headers: list[Any], behind: int) -> None:
    inner = batch(record(0, 0, b"k", b"inner"), 1, base_offset=77)
    bad = bytearray(batch(record(0, 0, b"k", inner * 2, headers), 1, base_offset=1))
    bad[17] ^= 1
    last = [batch(record(0, 0, b"k", b"last"), 1, base_offset=2)] * behind
    array = np.frombuffer(b"".join([bad, *last]), np.uint8)
    scanner = BatchScanner()
    assert list(scanner.scan_bytes(array)) == []
    assert LogResume(array).behind(scanner.end).position == (len(bad) if behind else -1)


def test_offsets_that_fall_between_two_index_entries_end_a_rebuild_of_that_segment_only(tmp_path: Path) -> None:
    root = tmp_path / "logs"
    for name, offsets in {"bad-0": (0, 1, 249, 7), "good-0": (0, 1, 2, 3)}.items():
        (root / name).mkdir(parents=True)
        batches = [
            batch(record(0, 0, b"k", bytes(50)), 1, base_offset=offset, base_ms=1000 + at, max_ms=1000 + at)
            for at, offset in enumerate(offsets)
        ]
        (root / name / f"{0:020d}.log").write_bytes(b"".join(batches))
    report = rebuild(str(root), str(tmp_path / "out"), index_interval_bytes=130, sync=False)
    assert report.lossy
    assert report.batches == 3 + 4
    assert (tmp_path / "out" / "good-0" / f"{0:020d}.index").stat().st_size > 0
