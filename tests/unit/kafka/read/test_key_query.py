"""Queries by key: the same answer by index, by scan, by both, and over harmed files."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CorruptError, LogdexError, UnsupportedLayoutError
from logdex.kafka.batch.batch_writer import encode_batch
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.read.key_query import query_key
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.segment import segment_lookups
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.primitives.crc32c import crc32c
from tests.examples import cases
from tests.golden import kafka as golden_kafka

KEYS = [b"", *(b"k%d" % i for i in range(12)), b"rare"]


class Partition:
    """Two segments of random batches with gaps; `records` are all of them, oldest first."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.records: list[tuple[bytes | None, int, bytes | None]] = []
        self.batches: dict[int, list[bytes]] = {}
        draw, offset = random.Random(seed), 0
        for base in (0, 1000):
            offset, raw = base, []
            for _ in range(30):
                records = [
                    Record(draw.choice([None, *KEYS]), b"v%d" % i, 1_000 + i, (("h", b"x"),))
                    for i in range(draw.randint(1, 12))
                ]
                raw.append(encode_batch(records, base_offset=offset, compression=draw.choice(list(Compression))))
                self.records += [(record.key, offset + i, record.value) for i, record in enumerate(records)]
                offset += len(records) + draw.randint(0, 3)
            self.batches[base] = raw
            self.log(base).write_bytes(b"".join(raw))

    def log(self, base: int) -> Path:
        return self.folder / f"{base:020d}.log"

    def index(self, base: int) -> Path:
        return self.log(base).with_suffix(".keyindex")

    def write_index(self, base: int) -> None:
        self.index(base).write_bytes(build_key_index(str(self.log(base))).tobytes())

    def ask(self, key: bytes, **how: Any) -> list[Record]:
        return ask(self.folder, key, **how)

    def check(self, **how: Any) -> None:
        for key in [*KEYS, b"absent"]:
            found = [(one.key, one.offset, one.value) for one in self.ask(key, **how)]
            assert found == [record for record in reversed(self.records) if record[0] == key]


@pytest.fixture(params=cases(range(3), 3))
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Partition:
    return Partition(tmp_path, request.param)


def ask(path: Path, key: bytes, **how: Any) -> list[Record]:
    with PartitionSnapshot(str(path)) as snapshot:
        return list(query_key(snapshot, ReadFilter(key=key), **how))


def fail(error: LogdexError) -> None:
    raise AssertionError(str(error))


def test_by_scan_by_index_and_mixed(partition: Partition) -> None:
    partition.check(on_bad_index=fail)
    partition.write_index(1000)
    partition.check(on_bad_index=fail)
    partition.write_index(0)
    partition.check(on_bad_index=fail)


def test_indexes_in_another_directory(partition: Partition, tmp_path: Path) -> None:
    elsewhere = tmp_path / "indexes"
    elsewhere.mkdir()
    for base in (0, 1000):
        partition.write_index(base)
        partition.index(base).rename(elsewhere / partition.index(base).name)
    partition.check(key_index_dir=str(elsewhere), on_bad_index=fail)
    partition.check(on_bad_index=fail)


def test_indexes_are_used_where_they_are(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    for base in (0, 1000):
        partition.write_index(base)
    scanned: list[str] = []

    def read(path: str, **_: object) -> list[object]:
        scanned.append(path)
        return []

    monkeypatch.setattr("logdex.kafka.read.splits.split.read_record_batches", read)
    partition.check()
    assert scanned == []


def test_no_record_twice_where_the_first_segment_goes_meanwhile(partition: Partition) -> None:
    for base in (0, 1000):
        partition.write_index(base)
    with PartitionSnapshot(str(partition.folder)) as snapshot:
        asking = query_key(snapshot, ReadFilter(key=b"k1"))
        found = [next(asking).offset]
        partition.log(0).unlink()
        partition.index(0).unlink()
        found += [record.offset for record in asking]
    assert found == [record[1] for record in reversed(partition.records) if record[0] == b"k1" and record[1] >= 1000]


def test_an_index_gives_no_record_outside_the_offsets(partition: Partition) -> None:
    begin, end = partition.records[40][1], partition.records[-20][1]
    wanted = [one for one in reversed(partition.records) if one[0] == b"k1" and begin <= one[1] < end]
    for base in (None, 0, 1000):
        if base is not None:
            partition.write_index(base)
        with PartitionSnapshot(str(partition.folder)) as snapshot:
            found = list(query_key(snapshot, ReadFilter(key=b"k1", offset=begin, end_offset=end)))
        assert [(one.key, one.offset, one.value) for one in found] == wanted


@pytest.mark.parametrize("change", ["grown", "cut", "of another", "empty"])
def test_a_log_that_has_changed_since(partition: Partition, change: str) -> None:
    raw = partition.batches[1000]
    if change == "grown":
        partition.log(1000).write_bytes(b"".join(raw[:10]))
        partition.write_index(1000)
        partition.log(1000).write_bytes(b"".join(raw))
    elif change == "cut":
        partition.write_index(1000)
        partition.log(1000).write_bytes(b"".join(raw[:10]))
        partition.records = [one for one in partition.records if one[1] < int.from_bytes(raw[10][:8], "big")]
    elif change == "of another":
        partition.write_index(0)
        partition.index(0).rename(partition.index(1000))
    else:
        partition.log(1000).write_bytes(b"")
        partition.write_index(1000)
        partition.log(1000).write_bytes(b"".join(raw))
    partition.check(on_bad_index=fail)


def same_size(*keys: bytes, first: int = 0) -> bytes:
    """Batches of one record each, all of the same size, whose last bytes are equal."""
    return b"".join(
        encode_batch([Record(key, bytes(200), 1_000)], base_offset=first + place) for place, key in enumerate(keys)
    )


@pytest.mark.parametrize("batches", [3, 40, 3000])
def test_a_log_of_the_same_size_with_other_records(batches: int, tmp_path: Path) -> None:
    """A log that was cut and has grown again, or was compacted: only headers differ."""
    before = [b"k%06d" % each for each in range(batches)]
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(same_size(*before))
    log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    kept = batches // 2
    after = before[:kept] + [b"n%06d" % each for each in range(kept, batches)]
    log.write_bytes(same_size(*after))
    for place in (0, kept - 1, kept, batches - 1):
        assert [each.offset for each in ask(tmp_path, after[place], on_bad_index=fail)] == [place]
    assert ask(tmp_path, before[-1]) == []
    compacted = before[:1] + before[2:] + [b"n%06d" % batches]
    log.write_bytes(same_size(before[0]) + same_size(*compacted[1:], first=2))
    assert [each.offset for each in ask(tmp_path, compacted[-1], on_bad_index=fail)] == [batches]
    assert [each.offset for each in ask(tmp_path, before[2], on_bad_index=fail)] == [2]


def test_an_index_of_an_earlier_version_is_told_and_done_without(partition: Partition) -> None:
    partition.write_index(1000)
    raw = bytearray(partition.index(1000).read_bytes())
    raw[4:6] = (1).to_bytes(2, "big")
    raw[60:64] = crc32c(bytes(raw[:60])).to_bytes(4, "big")
    partition.index(1000).write_bytes(raw)
    told: list[LogdexError] = []
    partition.check(on_bad_index=told.append)
    assert {type(error) for error in told} == {UnsupportedLayoutError}
    assert all("key index version 1 is not supported" in str(error) for error in told)


@pytest.mark.parametrize("harm", ["header", "filter", "entries", "short"])
def test_a_damaged_index_is_told_and_done_without(partition: Partition, harm: str) -> None:
    partition.write_index(1000)
    raw = bytearray(partition.index(1000).read_bytes())
    if harm == "short":
        raw = raw[:-1]
    else:
        raw[{"header": 20, "filter": 70, "entries": len(raw) - 40}[harm]] ^= 16
    partition.index(1000).write_bytes(raw)
    told: list[LogdexError] = []
    partition.check(on_bad_index=told.append)
    assert {type(error).__mro__[1] for error in told} <= {CorruptError}
    assert len(told) == len(KEYS) + 1


def test_a_wrong_offset_index_is_done_without(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_lookups, "SCAN_BYTES_A_QUERY", 0)  # else a log as small as this is walked anyway
    partition.write_index(1000)
    last = len(b"".join(partition.batches[1000][:-1]))
    wrong = (1).to_bytes(4, "big") + last.to_bytes(4, "big")
    (partition.folder / f"{1000:020d}.index").write_bytes(wrong)
    told: list[LogdexError] = []
    partition.check(on_bad_index=told.append)
    assert {type(error) for error in told} == {CorruptError}


@pytest.mark.parametrize("with_index", [False, True])
def test_a_bad_batch_is_an_error_or_passed_over(partition: Partition, with_index: bool) -> None:
    raw = partition.batches[1000]
    if with_index:
        partition.write_index(1000)
    position = len(b"".join(raw[:5]))
    data = bytearray(b"".join(raw))
    data[position + 30] ^= 1  # the batch's base timestamp: of what the CRC covers
    partition.log(1000).write_bytes(data)
    base, end = (int.from_bytes(raw[at][:8], "big") for at in (5, 6))
    lost = [one for one in partition.records if base <= one[1] < end and one[0] is not None]
    assert lost
    with pytest.raises(CorruptError) as caught:
        partition.ask(lost[0][0] or b"")
    assert (Path(caught.value.path), caught.value.position) == (partition.log(1000), position)
    partition.records = [one for one in partition.records if not base <= one[1] < end]
    errors: list[CorruptError] = []
    partition.check(on_bad_batch=errors.append)
    assert {error.position for error in errors} == {position}


@pytest.mark.needs_shared
@pytest.mark.parametrize("name", cases(["compacted", "transactions", "legacy", "shapes"], 3))
def test_real_segments(name: str, tmp_path: Path) -> None:
    keys = [b"absent", *(base64.b64decode(one["key"]) for one in golden_kafka.records(name) if one.get("key"))][:12]
    found = 0
    for log in sorted(golden_kafka.unpack(name, tmp_path).glob("*-0/*.log")):
        by_scan = {key: ask(log, key) for key in keys}
        log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
        assert {key: ask(log, key, on_bad_index=fail) for key in keys} == by_scan
        found += sum(map(len, by_scan.values()))
    assert found
