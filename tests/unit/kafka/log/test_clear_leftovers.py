"""Opening a directory in which renames were under way; segments split and replaced."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import offset_file_name
from logdex.kafka.log.load_report import LoadStep
from logdex.kafka.segment.file_records import FileRecords
from logdex.layout.kafka import RECORD_BATCH
from logdex.primitives.crc32c import crc32c
from tests.unit.kafka.log.crashed_logs import bases, contents, crash, expected, fill, reopen, steps


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events-0"


# -- leftovers -----------------------------------------------------------------------------------
def segment_files(path: Path, base: int) -> list[Path]:
    return sorted(file for file in path.iterdir() if file.name.startswith(f"{base:020d}.") and "snap" not in file.name)


def add_suffix(files: list[Path], suffix: str) -> None:
    for file in files:
        file.rename(file.with_name(file.name + suffix))


def test_deleted_and_cleaned_files_go(path: Path) -> None:
    fill(path)
    for name in (
        "00000000000000000100.log.deleted",
        "00000000000000000100.log.cleaned",
        "00000000000000000100.index.cleaned",
        "leader-epoch-checkpoint.tmp",
    ):
        (path / name).write_bytes(b"anything")
    (path / "notes.txt").write_text("stay")
    with reopen(path) as log:
        assert contents(log) == expected(20)
        assert len(log.load_report.actions) == 4
    assert {file.suffix for file in path.iterdir()} <= {
        *(".log", ".index", ".timeindex", ".snapshot", ".txt", ".lock", ".logdex-clean", "")
    }


def test_a_swap_that_was_not_finished_is_finished(path: Path) -> None:
    """One segment in the place of two, at each step of the renames that a crash can have come
    to."""
    fill(path)
    merged, old = path.with_name("merged-0"), bases(path)[:2]
    merged.mkdir()
    whole = b"".join((path / offset_file_name(base, ".log")).read_bytes() for base in old)
    for step in ("nothing deleted", "one deleted", "all deleted", "half renamed"):
        folder = path.with_name(f"{step.replace(' ', '')}-0")
        shutil.copytree(path, folder)
        (folder / (offset_file_name(0, ".log") + ".swap")).write_bytes(whole)
        (folder / (offset_file_name(0, ".index") + ".swap")).write_bytes(b"")
        if step != "nothing deleted":
            add_suffix(segment_files(folder, old[1]), ".deleted")
        if step in ("all deleted", "half renamed"):
            for file in segment_files(folder, 0):
                if not file.name.endswith(".swap"):
                    file.unlink()
        if step == "half renamed":
            (folder / (offset_file_name(0, ".index") + ".swap")).rename(folder / offset_file_name(0, ".index"))
        crash(folder)
        with reopen(folder) as log:
            assert contents(log) == expected(20), step
            assert bases(folder) == [0, *bases(path)[2:]], step
            assert log.segments[0].size_bytes == len(whole)
        assert list(folder.glob("*.swap")) == list(folder.glob("*.deleted")) == []


def test_a_split_that_was_not_finished_is_given_up(path: Path) -> None:
    fill(path)
    for name in ("00000000000000000000.log.cleaned", "00000000000000000003.log.swap"):
        (path / name).write_bytes(b"half")
    crash(path)
    with reopen(path) as log:
        assert contents(log) == expected(20)
        assert [step for step, _ in steps(log)] == [LoadStep.REMOVED] * 2


# -- overflow ------------------------------------------------------------------------------------
def test_a_segment_whose_offsets_overflow_is_split(path: Path) -> None:
    fill(path, 3, segment_bytes=1 << 20)
    far = 1 << 31
    with (path / offset_file_name(0, ".log")).open("ab") as file:
        for offset in (far - 1, far, far + 5, 3 * far):
            file.write(encode_batch([Record(value=b"far %d" % offset)], base_offset=offset))
        size = file.tell()
    crash(path)
    with reopen(path, segment_bytes=1 << 20) as log:
        assert bases(path) == [0, far, 3 * far]
        assert [record.offset for record in log.records()] == [0, 1, 2, far - 1, far, far + 5, 3 * far]
        assert (LoadStep.SPLIT, offset_file_name(0, ".log")) in steps(log)
        assert log.size_bytes == size
        assert log.load_report.cut_bytes == 0
        log.append(Record(value=b"after"))
    with reopen(path) as log:
        assert log.load_report.was_clean
        assert log.log_end_offset == 3 * far + 2
    for base in bases(path):
        with FileRecords(str(path / offset_file_name(base, ".log"))) as records:
            assert all(0 <= header.last_offset - base < far for header in records.headers())


# -- replacing segments (the cleaner's joint) ----------------------------------------------------
def test_segments_are_replaced(path: Path) -> None:
    from logdex.kafka.scan.scanner import BatchScanner

    fill(path)
    with reopen(path) as log:
        old = log.segments[:2]
        new = log.open_cleaned_segment(0)
        for segment in old:
            for window in BatchScanner().scan_file(segment.log.path):
                new.append(window.data.tobytes(), window.columns)
        log.replace_segments([new], old)
        assert contents(log) == expected(20)
        assert bases(path) == [segment.base_offset for segment in log.segments]
        assert len(bases(path)) == len(set(bases(path)))
        assert old[1].base_offset not in bases(path)
    with reopen(path) as log:
        assert log.load_report.was_clean
        assert contents(log) == expected(20)
    assert not [file for file in path.iterdir() if file.name.endswith((".cleaned", ".swap", ".deleted"))]


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("delta", [-1, -(1 << 31)])
def test_a_batch_that_ends_before_it_begins_ends_a_split(path: Path, delta: int, at_start: bool) -> None:
    """No segment can hold it: making new ones for it went on until no descriptor was left."""
    far = encode_batch([Record(value=b"far")], base_offset=1 << 32)
    wrong = bytearray(encode_batch([Record(value=b"wrong")], base_offset=(1 << 32) + 1))
    struct.pack_into(">i", wrong, RECORD_BATCH.offset_of("last_offset_delta"), delta)
    at = RECORD_BATCH.offset_of("attributes")
    struct.pack_into(">I", wrong, RECORD_BATCH.offset_of("crc"), crc32c(bytes(wrong[at:])))
    path.mkdir(parents=True)
    data = (bytes(wrong) if at_start else b"") + far + bytes(wrong) + far
    (path / offset_file_name(0, ".log")).write_bytes(data)
    with reopen(path) as log:
        assert len(log.segments) == 1
        assert contents(log) == ([] if at_start else [b"far"])
        assert sum(action.size_bytes for action in log.load_report.actions) > 0
    with reopen(path) as log:
        assert contents(log) == ([] if at_start else [b"far"])
