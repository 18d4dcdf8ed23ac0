"""Behind damage in a batch that holds a log, reading goes on with the batches of the log, never
with those it holds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from logdex.io.env import DEFAULT_ENV
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.internal_topics.batch_reading import read_batches
from logdex.kafka.read.scan_state import HeaderWalk
from logdex.kafka.recover.partition_scan import PartitionScan, SourceLog, batches_of
from logdex.kafka.scan.batch_runs import is_whole_batch
from logdex.kafka.scan.resume import LogResume
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.verify.checks import Collector
from logdex.kafka.verify.segment.segment_pass import Segment, SegmentPass
from tests.examples import cases, some
from tests.unit.kafka.batch.batch_bytes import whole_batches
from tests.unit.kafka.scan.embedded_logs import INNER_LOGS, OUTERS, OuterLog, harm, outer_log, random_log

PLACES = {"first": 0, "middle": 2, "last": 4}


def taken(data: bytes) -> list[int]:
    """Where the batches begin that a reader takes."""
    array, found, position = np.frombuffer(data, np.uint8), [], 0
    scanner, resume = BatchScanner(), LogResume(array)
    while position >= 0:
        for window in scanner.scan_bytes(array, position):
            found += window.columns.position.tolist()
        position = resume.behind(scanner.end).position
    return found


def log_with(outer: str, inner: str, place: int) -> OuterLog:
    """Five batches, of which one holds a log."""
    return outer_log([(outer, inner) if number == place else None for number in range(5)])


def flips(log: OuterLog, start: int) -> Iterator[tuple[str, bytes]]:
    """The log with one byte of the batch at `start` changed, or with another length."""
    raw = log.batch_at(start)
    bits = [(at, 1 << bit) for at in (8, 9, 10, 11, 16) for bit in range(8)]
    bits += [(at, 0x11) for at in range(61) if at < len(raw)]
    bits += [(at, 0x80) for at in range(61, len(raw), max(len(raw) // 8, 1))]
    for at, mask in bits:
        yield f"byte {at} ^ {mask:#x}", _changed(log.data, start + at, bytes([raw[at] ^ mask]))
    for at, inner in whole_batches(raw[1:]):
        for length in (at + 1 - 12, at + 1 + len(inner) - 12):
            yield f"length {length}", _changed(log.data, start + 8, length.to_bytes(4, "big"))


def _changed(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(("outer", "place", "zeros"), cases(itertools.product(OUTERS, PLACES, [0, 1000]), 4))
def test_a_flip_costs_one_batch(outer: str, place: str, zeros: int) -> None:
    for inner in INNER_LOGS:
        log = log_with(outer, inner, PLACES[place])
        (start,) = log.holders
        others = [at for at in log.starts if at != start]
        assert taken(log.data) == list(log.starts)
        for what, data in some(list(flips(log, start)), 6):
            found = taken(data + bytes(zeros))
            assert [at for at in found if at != start] == others, (inner, what)
            assert start not in found or data[start + 21 :] == log.data[start + 21 :], (inner, what)


@pytest.mark.parametrize("outer", OUTERS)
def test_a_torn_batch_is_none_of_the_log(outer: str) -> None:
    chance = random.Random(outer)
    for inner in INNER_LOGS:
        log = log_with(outer, inner, PLACES["last"])
        (start,) = log.holders
        raw = log.batch_at(start)
        cuts = {chance.randrange(1, len(raw)) for _ in range(40)}
        for at, found in whole_batches(raw[1:]):
            cuts |= {at + 1, at + 30, at + 1 + len(found), at + 2 + len(found)}
        for cut in some(sorted(cuts), 3):
            if cut < len(raw):
                assert taken(log.data[: start + cut]) == list(log.starts[:-1]), (inner, cut)


def positions_by_reader(path: Path) -> dict[str, list[int]]:
    """Where the batches begin that each reader of a .log takes."""
    name = str(path)
    found = {"internal topics": [batch.position for batch in read_batches([name], [])]}
    with LogSegment(str(path.parent), int(path.stem)) as segment:
        for what, check_crc in (("walk", True), ("headers", None)):
            walk = HeaderWalk(segment, 0, DEFAULT_ENV, check_crc=check_crc)
            found[what] = [at for window in walk for at in window.columns.position.tolist()]
    data = np.fromfile(path, np.uint8)
    found["headers"] = [at for at in found["headers"] if is_whole_batch(data, at)]
    scan = PartitionScan(DEFAULT_ENV)
    scan.scan(SourceLog(name, int(path.stem), data.size), None)
    scan.finish()
    pieces = [batch for piece in (*scan.pieces, *scan.strays) for batch in batches_of(piece, DEFAULT_ENV)]
    found["recover"] = sorted(piece.start for piece in pieces)
    return found


def records_at(path: Path, positions: list[int]) -> list[tuple[int, bytes | None]]:
    """Offsets and values of the records of some batches."""
    raw = path.read_bytes()
    return [(record.offset, record.value) for at in positions for record in decode_batch(raw, at)[0].records()]


def check_seed(seed: int, folder: Path) -> None:
    chance = random.Random(seed)
    log = random_log(chance, seamless=False)
    path = folder / f"{10:020d}.log"
    path.write_bytes(harm(log, chance))
    positions = taken(path.read_bytes())
    of_the_log = {log.batch_at(start)[16:] for start in log.starts}  # no checksum covers what is before
    whole = dict(whole_batches(path.read_bytes()))
    for at in positions:
        size = 12 + int.from_bytes(path.read_bytes()[at + 8 : at + 12], "big")
        assert path.read_bytes()[at + 16 : at + size] in of_the_log, seed
    for what, found in positions_by_reader(path).items():
        assert found == positions, (seed, what)
    rows = read_record_batches(str(path), columns=("offset", "value"), on_bad_batch=lambda error: None)
    values = [(row["offset"], row["value"]) for batch in rows for row in batch.to_pylist()]
    assert values == records_at(path, positions), seed
    scanned = SegmentPass(Segment(str(path), 10, None), Collector(str(folder), 1000), DEFAULT_ENV)
    list(scanned.windows())
    assert scanned.batches == len(positions), seed
    assert set(positions) <= whole.keys(), seed


@pytest.mark.parametrize("part", range(4))
def test_all_readers_take_the_same_batches_of_the_log(part: int, tmp_path: Path) -> None:
    for seed in some(range(2000 + 60 * part, 2000 + 60 * part + 60), 3):
        check_seed(seed, tmp_path)


@pytest.mark.slow
def test_all_readers_take_the_same_batches_of_many_logs(tmp_path: Path) -> None:
    for seed in range(2240, 3240):
        check_seed(seed, tmp_path)
