"""A log stored in the records of a damaged batch: no reader and no job takes what it holds for
batches of the log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from logdex.errors import CorruptError
from logdex.kafka.batch.batch_writer import encode_batch, encode_end_marker
from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import LONE_CLEAN_MARK, RECOVERY_POINT_CHECKPOINT
from logdex.kafka.key_index import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.read.follow import LogFollower
from logdex.kafka.read.key_query import query_key
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.rebuild import rebuild
from logdex.kafka.recover import recover
from logdex.kafka.settings.log_config import LogConfig
from logdex.kafka.snapshot.log_dir_snapshot import open_kafka
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests.cli.helpers import run
from tests.examples import cases, some
from tests.hostile.kafka.hostile import bounded
from tests.unit.kafka.batch.batch_bytes import batch, legacy, record, whole_batches
from tests.unit.kafka.scan.embedded_logs import INNER, INNER_LOGS, one

SETTINGS: dict[str, Any] = {"index_interval_bytes": 0, "segment_index_bytes": 1200}
PRODUCER = 7
FIRST, HOLDER, LAST = 0, 7, 15
"""Offsets: the log's first one, that of the batch that holds a log, the last one."""


def abort(offset: int) -> bytes:
    """A marker that aborts the transaction of the log's own producer."""
    return encode_end_marker(
        False, producer_id=PRODUCER, producer_epoch=0, coordinator_epoch=0, offset=offset, timestamp_ms=5
    )


def holders() -> dict[str, bytes]:
    """The values of the record at offset `HOLDER`, by name."""
    inner = {name: build(HOLDER) for name, build in INNER_LOGS.items()}
    inner["abort marker"] = one(HOLDER, INNER) + abort(HOLDER + 1) + one(HOLDER + 2, INNER)
    return inner


def make(folder: Path, inner: bytes) -> Path:
    """A partition of three segments, at 0, 5 and 10, whose record at 7 holds a log; 2 to 12 are of
    a transaction."""
    path = folder / "events-0"
    with Log.open(path, **SETTINGS) as log:
        for offset in range(LAST + 1):
            if offset in (5, 10):
                log.roll()
            if offset == 13:
                log.append_end_marker(PRODUCER, 0, commit=True)
                continue
            value = inner if offset == HOLDER else b"%d" % offset
            of_transaction = 2 <= offset < 13
            mine: dict[str, Any] = {"producer_id": PRODUCER, "producer_epoch": 0, "sequence": offset - 2}
            options = {**mine, "transactional": True} if of_transaction else {}
            log.append(Record(b"k", value, 1000 + offset), **options)
    return path


def harms(path: Path) -> Iterator[tuple[str, bytes]]:
    """(what, the middle segment's bytes) with the batch at `HOLDER` damaged in one place."""
    file = path / f"{5:020d}.log"
    raw = file.read_bytes()
    with open_kafka(path) as snapshot:
        found = partition(snapshot).segments[1].translate_offset(HOLDER)
    assert found is not None
    start, size = found.position, found.size_bytes
    for at, mask in (
        (8, 0x40),
        (9, 1),
        (10, 2),
        (11, 0x80),
        (11, 1),
        (16, 1),
        (16, 0x80),
        (17, 1),
        (23, 0x80),
        (60, 2),
    ):
        yield f"byte {at} ^ {mask:#x}", flipped(raw, start + at, mask)
    yield "in the body", flipped(raw, start + 75, 1)
    yield "header of zeros", raw[:start] + bytes(61) + raw[start + 61 :]
    inner = raw.find(INNER, start)
    if inner > 0:
        length = (inner - start).to_bytes(4, "big")
        yield "length", raw[: start + 8] + length + raw[start + 12 :]
    yield "cut", raw[: start + size * 3 // 4]


def flipped(raw: bytes, at: int, mask: int) -> bytes:
    return raw[:at] + bytes([raw[at] ^ mask]) + raw[at + 1 :]


def partition(snapshot: object) -> PartitionSnapshot:
    assert isinstance(snapshot, PartitionSnapshot)
    return snapshot


def values(records: Iterator[Record] | list[Record]) -> list[bytes]:
    return [each.value or b"" for each in records]


@pytest.mark.parametrize("name", holders())
def test_no_reader_takes_what_a_damaged_batch_holds(name: str, tmp_path: Path) -> None:
    path = make(tmp_path, holders()[name])
    file = path / f"{5:020d}.log"
    data = [offset for offset in range(LAST + 1) if offset not in (HOLDER, 13)]
    for number, (what, raw) in some(list(enumerate(harms(path))), 12, first=len(name)):
        file.write_bytes(raw)
        expected = [b"%d" % offset for offset in data if what != "cut" or not HOLDER <= offset < 10]
        told = (name, what)
        read_all(path, expected, told)
        output = tmp_path / f"out-{number}"
        report = recover(path, output, LogConfig(index_interval_bytes=0), sync=False)
        assert report.lossy, told
        with open_kafka(output) as snapshot:
            assert values(iter(partition(snapshot).scan())) == expected, told
        assert [each for each in verify(output).findings if each.check not in ("producer-sequence",)] == [], told
        check_jobs(path, tmp_path / f"more-{number}", expected, told)


def read_all(path: Path, expected: list[bytes], told: tuple[str, str]) -> None:
    with open_kafka(path) as snapshot:
        for isolation in (None, "read_uncommitted", "read_committed"):
            scan = partition(snapshot).scan(isolation=isolation)
            assert values(iter(scan)) == expected, (*told, isolation)
            bad_ends = [end for end in scan.ends if not end.is_good]
            assert len(scan.problems) + len(bad_ends) == 1, (*told, isolation)
        found = query_key(partition(snapshot), ReadFilter(key=b"k"), on_bad_batch=lambda error: None)
        assert values(found) == expected[::-1], told
        assert partition(snapshot).log_end_offset == LAST + 1, told
        assert partition(snapshot).last_stable_offset == LAST + 1, told
    checks = [each.check for each in verify(path).findings if each.path.endswith(".log")]
    assert len([check for check in checks if check != "producer-sequence"]) == 1, (told, checks)


def check_jobs(path: Path, folder: Path, expected: list[bytes], told: tuple[str, str]) -> None:
    """Those that end at damage: a rebuild, a key index, an unclean opening, a follower."""
    report = rebuild(path, folder / "rebuilt", index_interval_bytes=0, sync=False)
    assert (report.lossy, report.batches) == (True, 5 + 2 + 6), told
    file = path / f"{5:020d}.log"
    try:
        index = build_key_index(str(file))
    except CorruptError:
        pass  # it ends at the damage
    else:  # a batch that reaches behind the end: the index has what is before
        file.with_suffix(".keyindex").write_bytes(index.tobytes())
        with open_kafka(path) as snapshot:
            found = query_key(partition(snapshot), ReadFilter(key=b"k"), on_bad_batch=lambda error: None)
            assert values(found) == expected[::-1], told
        file.with_suffix(".keyindex").unlink()
    with LogFollower(path) as follower:
        followed: list[bytes] = []
        with suppress(CorruptError):
            for _ in range(100):
                followed += values(follower.poll())
        assert set(followed) <= set(expected), told
    copy = folder / "events-0"
    shutil.copytree(path, copy)
    for name in (LONE_CLEAN_MARK, RECOVERY_POINT_CHECKPOINT):
        (copy / name).unlink()
    with Log.open(copy, **SETTINGS) as log:
        assert values(log.records()) == [b"%d" % offset for offset in range(7)], told


@pytest.mark.parametrize("name", cases(holders(), 3))
def test_a_read_from_an_offset_is_not_led_into_a_value(name: str, tmp_path: Path) -> None:
    """Without an index entry near, headers lead from batch to batch: a damaged length must not lead
    into a value."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    good = [one(offset, holders()[name] if offset == HOLDER else b"v%d" % offset) for offset in range(12)]
    before = b"".join(good[:HOLDER])
    file = directory / f"{0:020d}.log"
    for at, inner in some(list(whole_batches(good[HOLDER][1:])), 3):
        for length in (at + 1 - 12, at + 1 + len(inner) - 12, 1 << 20):
            bad = good[HOLDER][:8] + length.to_bytes(4, "big") + good[HOLDER][12:]
            file.write_bytes(b"".join([before, bad, *good[HOLDER + 1 :]]))
            with open_kafka(directory) as snapshot:
                mine = partition(snapshot)
                for offset in range(12):
                    told = (name, length, offset)
                    rest = [b"v%d" % each for each in range(offset, 12) if each != HOLDER]
                    assert values(iter(mine.scan(offset=offset))) == rest, told
                    if offset == HOLDER:
                        with pytest.raises(CorruptError):
                            mine.read(offset, 1)
                        continue
                    found = values(mine.read(offset, 1))
                    assert found == rest[:1], told


def test_what_holds_the_same_offsets_is_not_recovered(tmp_path: Path) -> None:
    """The inner record must not take the place of the outer one, with exit 0 and "lost nothing"."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    outers = [one(offset, one(offset, INNER + b"%d" % offset)) for offset in range(6)]
    (directory / f"{0:020d}.log").write_bytes(b"".join([*outers[:3], flipped(outers[3], 30, 1), *outers[4:]]))
    told = run("recover", directory, "-o", tmp_path / "out", "--no-sync")
    assert told.exit_code == 3, told
    assert (tmp_path / "out" / f"{0:020d}.log").read_bytes() == b"".join(outers[:3] + outers[4:])
    assert run("verify", tmp_path / "out").exit_code == 0
    told = run("cat", directory)
    assert told.exit_code == 1
    assert told.stdout.count("\n") == 5


def test_what_nothing_decides_is_put_aside(tmp_path: Path) -> None:
    """Of a run between two destroyed headers, and of one in a batch that is cut, nobody knows whose
    it is."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    good = [one(offset, b"v%d" % offset) for offset in range(20)]
    lost = bytes(len(good[0]))
    raw = b"".join([*good[:4], lost, *good[5:9], lost, *good[10:]])
    (directory / f"{0:020d}.log").write_bytes(raw)
    output = tmp_path / "out"
    report = recover(directory, output, sync=False)
    assert (output / f"{0:020d}.log").read_bytes() == b"".join(good[:4] + good[10:])
    assert (output / "lost+found" / f"{0:020d}.log").read_bytes() == b"".join(good[5:9])
    (saved,) = [each for each in report.skipped if each.saved]
    assert "may lie in the value of a record" in saved.why
    assert saved.is_loss
    assert (saved.first_offset, saved.next_offset) == (5, 9)
    covered = sorted((each.start, each.end) for each in report.skipped)
    size = len(good[0])
    assert covered == [(4 * size, 5 * size), (5 * size, 9 * size), (9 * size, 10 * size)]


def test_an_index_decides_what_the_log_alone_does_not(tmp_path: Path) -> None:
    path = make(tmp_path, b"plain")
    file = path / f"{5:020d}.log"
    raw = bytearray(file.read_bytes())
    with open_kafka(path) as snapshot:
        found = [partition(snapshot).segments[1].translate_offset(offset) for offset in (6, 7, 8, 9)]
    places = [each.position for each in found if each is not None]
    for place in (places[0], places[2]):
        raw[place : place + 61] = bytes(61)
    file.write_bytes(raw)
    with open_kafka(path) as snapshot:
        assert [each.offset for each in partition(snapshot).scan(offset=5, end_offset=10)] == [5, 7, 9]
    (path / f"{5:020d}.index").unlink()
    with open_kafka(path) as snapshot:
        assert [each.offset for each in partition(snapshot).scan(offset=5, end_offset=10)] == [5, 9]


MANY = 20_000
RAW = one(5, b"v" * 30)
DAMAGED = flipped(RAW, len(RAW) - 3, 1)
LYING = RAW[:8] + (1 << 22).to_bytes(4, "big") + RAW[12:]
CROWDS = {
    "duplicates": RAW * MANY,
    "damaged duplicates": DAMAGED * MANY,
    "damaged and good by turns": (DAMAGED + RAW) * MANY,
    "a byte between duplicates": (RAW + b"\1") * MANY,
    "a zero between duplicates": (RAW + b"\0") * MANY,
    "damaged holders": flipped(one(5, RAW), 17, 1) * MANY,
    "holders without headers": (bytes(61) + one(5, RAW)[61:]) * MANY,
    "lying lengths": LYING * MANY,
    "lying lengths and good ones": (LYING + RAW) * (MANY // 2),
    "counts of records": (RAW[:57] + (1 << 30).to_bytes(4, "big") + RAW[61:]) * MANY,
    "lying headers between": (LYING[:61] * 9 + RAW + b"\5") * (MANY // 10),
    "old messages": flipped(legacy(1, 5, b"k", b"v" * 40), 50, 1) * MANY,
    "records of one byte": batch(b"\2" * 500_000, 500_000) + RAW,
}


QUICK_CROWDS = ("damaged duplicates",)
"""The default run takes this, the others are slow."""


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in QUICK_CROWDS else [pytest.mark.slow]) for each in CROWDS]
)
def test_crowds_of_batches_stay_quick(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    path = directory / f"{0:020d}.log"
    path.write_bytes(CROWDS[name])
    with bounded(seconds=30):
        assert run("cat", directory, "--json").exit_code in (0, 1)


def test_an_empty_array_and_a_short_one() -> None:
    from logdex.kafka.scan.resume import LogResume
    from logdex.kafka.scan.scanner import BatchScanner

    for raw in (b"", b"\1", b"\0" * 30, RAW[:30], RAW[:60]):
        scanner = BatchScanner()
        array = np.frombuffer(raw, np.uint8)
        assert list(scanner.scan_bytes(array)) == []
        assert LogResume(array).behind(scanner.end).position == -1


def test_encoded_by_the_writer_too() -> None:
    """The helpers' batches are those that the writer makes."""
    payload = record(0, 0, b"k", b"v")
    assert encode_batch([Record(b"k", b"v", 1005)], base_offset=5) == batch(
        payload, 1, base_offset=5, base_ms=1005, max_ms=1005
    )
