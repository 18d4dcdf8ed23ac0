"""One answer to "which records are committed", for everybody who reads a log."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logdex
from logdex.kafka.batch.record import Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.log.log import Log
from logdex.kafka.read.committed import AbortedTransactions, find_aborted
from logdex.kafka.read.follow import LogFollower
from logdex.kafka.segment.transaction_index import AbortedTxn, derive_transaction_index
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.crc32c import crc32c

COMMITTED = "read_committed"
Step = tuple[str, int]
"""``plain``, ``put``, ``commit``, ``abort`` or ``roll``, and a producer."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "events-0"


def write(path: Path, steps: list[Step]) -> list[int]:
    """Writes a log. Returns the offsets of the records that are committed."""
    with Log.open(str(path)) as log:
        fates: dict[int, list[int]] = {}
        undecided: dict[int, int] = {}
        stable: list[int] = []
        for what, producer in steps:
            offset = log.log_end_offset
            record = [Record(value=b"%d" % number) for number in range(2)]
            if what == "roll":
                log.roll()
            elif what == "plain":
                log.append(record)
                stable += [offset, offset + 1]
            elif what == "put":
                log.append(record, producer_id=producer, producer_epoch=0, transactional=True)
                fates.setdefault(producer, []).extend((offset, offset + 1))
                undecided.setdefault(producer, offset)
            elif producer in fates:
                log.append_end_marker(producer, 0, commit=what == "commit")
                ended = fates.pop(producer)
                stable += ended if what == "commit" else []
                del undecided[producer]
        end = min(undecided.values(), default=log.log_end_offset)
        return sorted(offset for offset in stable if offset < end)


def of_log(path: Path, start: int) -> dict[str, list[int]]:
    with Log.open(str(path)) as log:
        found: dict[str, list[int]] = {"records": [each.offset for each in log.records(start, isolation=COMMITTED)]}
        for size in (1, 300):
            found[f"read {size}"] = []
            position = start
            while position < log.last_stable_offset:
                read = log.read(position, size, isolation=COMMITTED)
                found[f"read {size}"] += [each.offset for each in read]
                position = max(read[-1].offset if read else position, *_last_read(log, position, size)) + 1
        return found


def _last_read(log: Log, position: int, size: int) -> list[int]:
    return [batch.last_offset for batch in log.read_batches(position, size, isolation=COMMITTED)] or [position]


def of_snapshot(path: Path, start: int) -> dict[str, list[int]]:
    with logdex.open(str(path)) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        scan = snapshot.scan(offset=start, isolation=COMMITTED)
        table = snapshot.scan(offset=start, isolation=COMMITTED).to_arrow(["offset"]).read_all()
        return {
            "snapshot's read": [each.offset for each in snapshot.read(start, 1 << 20, isolation=COMMITTED)],
            "scan": [each.offset for each in scan],
            "to_arrow": table.column("offset").to_pylist(),
        }


def of_follower(path: Path, start: int) -> dict[str, list[int]]:
    found: list[int] = []
    with LogFollower(str(path), start, isolation=COMMITTED) as follower:
        quiet = 0
        while quiet < 2 * len([*path.glob("*.log")]) + 2:  # two for a segment
            records = follower.poll()
            found += [each.offset for each in records]
            quiet = 0 if records else quiet + 1
    return {"follower": found}


def all_answers(path: Path, start: int = 0) -> dict[str, list[int]]:
    """What every reader shows from `start` on."""
    return of_snapshot(path, start) | of_follower(path, start) | of_log(path, start)


def check(path: Path, expected: list[int], start: int = 0) -> None:
    for who, found in all_answers(path, start).items():
        assert found == [offset for offset in expected if offset >= start], who


TWO = [("put", 1), ("plain", 0), ("put", 2), ("roll", 0), ("put", 1), ("abort", 1), ("roll", 0), ("commit", 2)]


def index_of(path: Path) -> Path:
    [found] = path.glob("*.txnindex")
    return found


def test_from_the_middle_of_transactions_that_end_in_later_segments(path: Path) -> None:
    expected = write(path, TWO)
    assert expected == [2, 3, 4, 5]
    for start in range(9):
        check(path, expected, start)


def test_without_the_transaction_index(path: Path) -> None:
    expected = write(path, TWO)
    index_of(path).unlink()
    check(path, expected)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 34,  # no version that there is
        b"torn",
        derive_transaction_index([AbortedTxn(2, 0, 8, 9)]),  # of another log: ours has a committed batch there
    ],
)
def test_a_transaction_index_that_is_not_the_logs(path: Path, data: bytes) -> None:
    expected = write(path, TWO)
    index_of(path).write_bytes(data)
    for who, found in (of_snapshot(path, 0) | of_follower(path, 0)).items():
        assert found == expected, who


def harm_marker(path: Path, offset: int) -> None:
    """Turns the marker at `offset` into its opposite, and leaves its checksum."""
    for file in path.glob("*.log"):
        data = bytearray(file.read_bytes())
        at = 0
        while at < len(data):
            batch, size = decode_batch(bytes(data), at)
            if batch.base_offset == offset:
                key = data.index(struct.pack(">hh", 0, batch.control_type or 0), at + 61)
                data[key + 3] ^= 1
            at += size
        file.write_bytes(data)


@pytest.mark.parametrize("marker", ["commit", "abort"])
def test_a_damaged_marker_says_what_the_transaction_index_says(path: Path, marker: str) -> None:
    """Readers that go on behind it tell of the damage, and show what the index says is
    committed."""
    expected = write(path, [("put", 1), (marker, 1), ("plain", 0), ("put", 1), ("commit", 1), ("plain", 0)])
    harm_marker(path, 2)
    with logdex.open(str(path)) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        scan = snapshot.scan(isolation=COMMITTED)
        assert [each.offset for each in scan] == expected
        assert [problem.position for problem in scan.problems] == [snapshot.segments[0].translate_offset(2).position]  # type: ignore[union-attr]


def test_markers_within_damage_that_hides_where_batches_begin(path: Path) -> None:
    """The lengths lead astray; the transaction index still names the marker that lies there."""
    write(path, [("put", 1), ("put", 2), ("abort", 1), ("commit", 2), ("plain", 0), ("put", 1), ("commit", 1)])
    [file] = path.glob("*.log")
    data = bytearray(file.read_bytes())
    at = 0
    for _ in range(2):
        at += decode_batch(bytes(data), at)[1]
    struct.pack_into(">i", data, at + 8, struct.unpack_from(">i", data, at + 8)[0] + 1)  # the abort marker's length
    file.write_bytes(data)
    with logdex.open(str(path)) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        scan = snapshot.scan(isolation=COMMITTED)
        assert [each.offset for each in scan] == [2, 3, 6, 7, 8, 9]
        assert scan.problems


def test_a_control_record_that_ends_no_transaction_says_nothing(path: Path) -> None:
    """Of a type that a later version may have."""
    write(path, [("put", 1), ("abort", 1), ("plain", 0), ("put", 1), ("abort", 1), ("plain", 0)])
    [file] = path.glob("*.log")
    data = bytearray(file.read_bytes())
    first = decode_batch(bytes(data), 0)[1]
    marker = decode_batch(bytes(data), first)[0]
    key = data.index(struct.pack(">hh", 0, 0), first + 61)
    data[key + 3] = 7
    struct.pack_into(">I", data, first + 17, crc32c(bytes(data[first + 21 : first + marker.size_bytes])))
    file.write_bytes(data)
    for name in path.glob("*.snapshot"):
        name.unlink()
    with logdex.open(str(path)) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        aborted = find_aborted(snapshot.segments, 0, 100)
        assert aborted == AbortedTransactions([AbortedTxn(1, 0, 7, 8)])  # the next marker of its producer ends it


def test_spans_that_overlap(path: Path) -> None:
    aborted = AbortedTransactions([AbortedTxn(1, 10, 50, 0), AbortedTxn(1, 20, 30, 0), AbortedTxn(2, 5, 6, 0)])
    assert aborted == AbortedTransactions([AbortedTxn(2, 5, 6, 0), AbortedTxn(1, 20, 30, 0), AbortedTxn(1, 10, 50, 0)])
    assert aborted.between(0, 10) == AbortedTransactions([AbortedTxn(2, 5, 6, 0)])
    assert aborted.between(7, 10) == AbortedTransactions()
    assert bool(aborted)
    assert not aborted.between(51, 99)


steps = st.lists(
    st.tuples(st.sampled_from(["plain", "put", "put", "put", "commit", "abort", "roll"]), st.integers(1, 3)),
    max_size=24,
)


@settings(max_examples=25)
@given(steps=steps, start=st.integers(0, 20))
def test_all_readers_show_the_same(tmp_path_factory: pytest.TempPathFactory, steps: list[Step], start: int) -> None:
    path = tmp_path_factory.mktemp("log") / "events-0"
    expected = write(path, steps)
    with logdex.open(str(path)) as snapshot:
        assert isinstance(snapshot, PartitionSnapshot)
        start = min(start, snapshot.log_end_offset)
    check(path, expected, start)
    shutil.rmtree(path.parent)
