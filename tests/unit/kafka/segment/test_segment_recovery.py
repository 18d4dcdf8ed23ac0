"""Recovering a segment: the cases of Kafka's LogSegmentTest, written anew from the behaviour;
opening what is there."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from logdex.errors import CorruptError, OffsetOrderError, StorageError, UsageError
from logdex.kafka.scan.scanner import EndKind
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.segment.segment_recovery import derive_segment, recover
from tests.unit.kafka.segment.segments import CONFIG, append, batch, files, grown
from tests.unit.kafka.segment.segments import make_segment as make


def test_recovery_gives_the_bytes_of_a_live_segment(tmp_path: Path) -> None:
    with grown(tmp_path) as segment:
        segment.on_become_inactive()
    live = files(tmp_path)
    for name in live:
        if not name.endswith(".log"):
            (tmp_path / name).unlink()
    with make(tmp_path) as segment:
        seen: list[int] = []
        derived = segment.recover(lambda columns: seen.extend(columns.base_offset.tolist()))
        assert (derived.truncated_bytes, derived.next_offset, derived.batches) == (0, 70, 30)
        assert derived.end.kind is EndKind.END
        assert seen == list(range(40, 70))
    assert files(tmp_path) == live


@pytest.mark.parametrize("index", [".index", ".timeindex"])
def test_recovery_mends_a_corrupt_index(tmp_path: Path, index: str) -> None:
    with grown(tmp_path) as segment:
        segment.on_become_inactive()
    live = files(tmp_path)
    path = tmp_path / f"{40:020}{index}"
    path.write_bytes(bytes(range(1, 201)))
    with make(tmp_path) as segment:
        segment.recover()
        for offset in range(40, 70):
            assert segment.find_offset_by_timestamp(offset * 10) == (offset * 10, offset, 0)
    assert files(tmp_path) == live


def test_recovery_cuts_behind_the_last_good_batch(tmp_path: Path) -> None:
    size = len(batch(40, 400, value=b"x" * 20))
    for place in (0, 1, 17, 29):
        directory = tmp_path / str(place)
        directory.mkdir()
        with grown(directory) as segment:
            segment.close()
        log = directory / f"{40:020}.log"
        data = bytearray(log.read_bytes())
        data[place * size + 70] ^= 1
        log.write_bytes(data)
        expected = derive_segment(str(log), 40, 10)
        assert log.read_bytes() == data
        derived = recover(str(directory), 40, CONFIG)
        assert replace(derived, end=expected.end) == expected
        assert derived.end.position == expected.end.position
        assert (derived.size_bytes, derived.truncated_bytes) == (place * size, (30 - place) * size)
        assert (derived.next_offset, derived.end.kind) == (40 + place, EndKind.CORRUPT)
        assert log.stat().st_size == place * size


def test_recovery_into_another_directory_leaves_the_segment_alone(tmp_path: Path) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    output.mkdir()
    with grown(source) as segment:
        segment.on_become_inactive()
    before = files(source)
    (output / f"{40:020}.index").write_bytes(b"what an earlier run left, longer than what follows" * 100)
    recover(str(source), 40, CONFIG, output=str(output))
    assert files(source) == before
    assert files(output) == {name: data for name, data in before.items() if not name.endswith(".log")}


def test_recovery_of_batches_that_no_index_can_hold_changes_nothing(tmp_path: Path) -> None:
    log = tmp_path / f"{40:020}.log"
    log.write_bytes(batch(40, 1) + batch(45, 2) + batch(44, 3))
    with pytest.raises(OffsetOrderError, match="byte 136"):
        recover(str(tmp_path), 40, CONFIG)
    assert list(files(tmp_path)) == [log.name]


# -- opening


def test_open_for_reading_changes_and_makes_nothing(tmp_path: Path) -> None:
    with grown(tmp_path) as segment:
        segment.close()
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()}
    with LogSegment(str(tmp_path), 40) as segment:
        assert segment.translate_offset(55) is not None
        assert segment.find_offset_by_timestamp(550) == (550, 55, 0)
        assert segment.read_next_offset() == 70
        for change in (
            lambda: append(segment, batch(70, 1)),
            segment.on_become_inactive,
            lambda: segment.truncate_to(50),
            segment.recover,
            segment.flush,
        ):
            with pytest.raises(UsageError, match="for reading only"):
                change()
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.iterdir()} == before


def test_missing_indexes_are_searched_without(tmp_path: Path) -> None:
    with grown(tmp_path) as segment:
        segment.close()
    for suffix in (".index", ".timeindex"):
        (tmp_path / f"{40:020}{suffix}").unlink()
    with LogSegment(str(tmp_path), 40) as segment:
        assert segment.offset_index.missing
        found = segment.translate_offset(55)
        assert found is not None
        assert found.offset == 55
        assert segment.largest_timestamp_ms == (tmp_path / f"{40:020}.log").stat().st_mtime_ns // 1_000_000
    assert len(list(tmp_path.iterdir())) == 1


def test_taken_up_again_it_goes_on(tmp_path: Path) -> None:
    with grown(tmp_path, 5) as segment:
        segment.on_become_inactive()
    with make(tmp_path) as segment:
        segment.offset_index.resize(CONFIG.segment_index_bytes)
        segment.time_index.resize(CONFIG.segment_index_bytes)
        assert segment.max_timestamp == (440, 44)
        append(segment, batch(45, 100))
        append(segment, batch(46, 900))
        assert segment.max_timestamp == (900, 46)
        assert segment.offset_index.last_offset == 46  # 45 has none: the count of bytes began anew
        assert segment.find_offset_by_timestamp(500) == (900, 46, 0)


def test_suffixes_and_deletion(tmp_path: Path) -> None:
    with grown(tmp_path) as segment:
        segment.change_file_suffixes("", ".deleted")
        assert sorted(files(tmp_path)) == [f"{40:020}{s}.deleted" for s in (".index", ".log", ".timeindex")]
        assert segment.read(41, 10) is not None  # whoever still reads goes on
        assert segment.find_offset_by_timestamp(450) == (450, 45, 0)
        with pytest.raises(UsageError, match="suffix"):
            segment.change_file_suffixes("", ".deleted")
        append(segment, batch(70, 1))
        segment.delete_files()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageError):
        LogSegment(str(tmp_path), 40)


def test_a_negative_position_in_an_index_is_named(tmp_path: Path) -> None:
    with grown(tmp_path) as segment:
        segment.close()
    index = tmp_path / f"{40:020}.index"
    index.write_bytes(bytes.fromhex("00000001ffffffff"))
    with LogSegment(str(tmp_path), 40) as segment, pytest.raises(CorruptError, match="negative"):
        segment.translate_offset(45)


def test_a_copy_of_a_live_segment_answers(tmp_path: Path) -> None:
    """Preallocated indexes whose tails are zeros, read beside their writer and from a copy."""
    live, copy = tmp_path / "live", tmp_path / "copy"
    live.mkdir()
    with grown(live) as segment:
        shutil.copytree(live, copy)
        with LogSegment(str(live), 40) as reader:
            assert reader.translate_offset(69) == segment.translate_offset(69)
            append(segment, batch(70, 900))
            assert reader.translate_offset(70) is None
            reader.log.refresh()
            assert reader.translate_offset(70) == segment.translate_offset(70)
    with LogSegment(str(copy), 40) as reader:
        assert reader.offset_index.entries == 29
        assert reader.offset_index.lookup(55).offset == 55
