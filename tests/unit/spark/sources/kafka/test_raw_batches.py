"""`kafka_log` with rawBatches, without Spark: a row per batch as it is stored, as the real engine
lists them; damage, ranges of offsets, streams."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import logdex
from logdex.errors import CorruptError, UsageError
from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.batch.record_batch import decode_batch
from logdex.kafka.columns import stored_batches
from logdex.kafka.columns.stored_batches import STORED_COLUMNS, read_stored_batches
from logdex.kafka.log.log import Log
from logdex.spark.sources.kafka.stream import LogDirStream
from logdex.spark.sources.kafka.table import LogDirTable
from tests.examples import cases
from tests.golden import kafka as golden
from tests.unit.kafka.batch.batch_bytes import batch, record
from tests.unit.spark.sources.tables import batches_of, plan_of, rows_between, rows_of

TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}
SAME = ("lastOffset", "magic", "leaderEpoch", "producerId", "producerEpoch", "baseSequence")


def raw(path: Path | str, **options: str) -> list[dict[str, Any]]:
    return rows_of(LogDirTable({"path": str(path), "rawBatches": "true", **options}))


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """30 batches of 1 to 4 records, of all codecs, in several segments."""
    draw = random.Random(7)
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c1\nnode.id=1\n")
    with Log.open(tmp_path / "t-0", segment_bytes=700, index_interval_bytes=1) as log:
        for number in range(30):
            codec = [*Compression][number % len(Compression)]
            records = [Record(b"k", bytes(draw.randrange(60)), 1000 + number)] * draw.randint(1, 4)
            log.append(records, compression=codec)
    return tmp_path


@pytest.mark.parametrize("name", cases(golden.NAMES, 9))
def test_batches_are_those_of_the_engine(name: str, golden_log: Callable[[str], Path]) -> None:
    path = golden_log(name)
    expected: dict[str, list[dict[str, Any]]] = {}
    listed = [line for line in golden.records(name) if line["kind"] == "batch"]
    with logdex.open_log_dir(path) as snapshot:
        starts = {each.name: each.log_start_offset for each in snapshot.partitions.values()}
    for line in sorted(listed, key=lambda each: (each["segment"], each["position"])):
        if line["valid"] and line["lastOffset"] >= starts[line["partition"]]:
            expected.setdefault(line["partition"], []).append(line)
    topics = ",".join(sorted({partition.rpartition("-")[0] for partition in expected}))
    rows = raw(path, includeControl="true", mode="PERMISSIVE", subscribe=topics, maxPartitionBytes="4k")
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["_corrupt"] is None:
            found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row)
    assert found.keys() == expected.keys()
    for partition, lines in expected.items():
        assert len(found[partition]) == len(lines)
        for row, line in zip(found[partition], lines, strict=True):
            assert [row[each] for each in SAME] == [line[each] for each in SAME]
            assert (row["position"], row["sizeBytes"]) == (line["position"], line["size"]) == row_place(row, line)
            assert row["compression"] == line["codec"]
            assert (row["isTransactional"], row["isControl"]) == (line["transactional"], line["control"])
            assert row["timestampType"] == TIMESTAMP_TYPES[line["timestampType"]]
            assert row["maxTimestamp"] == line["maxTimestamp"] * 1000
            if line["magic"] == 2:
                assert (row["baseOffset"], row["recordCount"]) == (line["baseOffset"], line["count"])
    bad = [row for row in rows if row["_corrupt"] is not None]
    assert bool(bad) == any(not line["valid"] for line in listed)


def row_place(row: dict[str, Any], line: dict[str, Any]) -> tuple[int, int]:
    """The position of the line, and how many bytes of a batch with its checksum the row has."""
    batch, _ = decode_batch(row["batch"])
    assert batch.crc == line["crc"]
    return line["position"], len(row["batch"])


def test_each_batch_is_read_once_whatever_the_ranges(log_dir: Path) -> None:
    every = raw(log_dir, columns="baseOffset,lastOffset")
    assert len(every) == 30
    last = every[-1]["lastOffset"]
    for size in range(1, 9):
        assert raw(log_dir, columns="baseOffset,lastOffset", maxRecordsPerPartition=str(size)) == every
    for begin in range(last + 1):
        rows = raw(log_dir, columns="baseOffset,lastOffset", startingOffsets=f'{{"t": {{"0": {begin}}}}}')
        assert rows == [row for row in every if row["lastOffset"] >= begin]
        rows = raw(log_dir, columns="baseOffset,lastOffset", endingOffsets=f'{{"t": {{"0": {begin}}}}}')
        assert rows == [row for row in every if row["lastOffset"] < begin]
    for limit in ({"maxOffsetsPerTrigger": "3"}, {"maxBytesPerTrigger": "300"}):
        given = {"path": str(log_dir), "rawBatches": "true", "columns": "baseOffset,lastOffset", **limit}
        batches = batches_of(LogDirStream(given | {"startingOffsets": "earliest"}), {"t": {"0": 0}})
        assert len(batches) > 5
        assert [row for batch in batches for row in batch] == every


def test_the_bytes_are_those_of_the_files(log_dir: Path) -> None:
    files = b"".join(path.read_bytes() for path in sorted((log_dir / "t-0").glob("*.log")))
    rows = raw(log_dir)
    assert b"".join(row["batch"] for row in rows) == files
    assert {row["compression"] for row in rows} == {codec.label for codec in Compression}
    plan = plan_of(LogDirTable({"path": str(log_dir), "rawBatches": "true", "columns": "logDir"}))
    assert {each.split.columns for each in plan.parts} == {("last_offset",)}  # type: ignore[attr-defined]


def test_damage(log_dir: Path) -> None:
    rows = raw(log_dir)
    file = max((log_dir / "t-0").glob("*.log"), key=lambda path: path.stat().st_size)
    ours = [place for place, row in enumerate(rows) if row["baseOffset"] >= int(file.stem)][:3]
    bad = rows[ours[1]]
    data = bytearray(file.read_bytes())
    data[bad["position"] + bad["sizeBytes"] - 1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CorruptError, match="crc") as caught:
        raw(log_dir)
    assert (caught.value.path, caught.value.position) == (str(file), bad["position"])
    others = [row for row in rows if row != bad]
    assert raw(log_dir, mode="DROPMALFORMED") == others
    kept = raw(log_dir, mode="PERMISSIVE")
    [told] = [row["_corrupt"] for row in kept if row["_corrupt"] is not None]
    assert (told["begin"], told["end"]) == (bad["position"], bad["position"] + bad["sizeBytes"])
    assert [{**row, "_corrupt": None} for row in others] == [row for row in kept if row["_corrupt"] is None]


@pytest.mark.parametrize("option", [{"key": "k"}, {"isolation.level": "read_committed"}, {"includeHeaders": "true"}])
def test_options_of_records_are_refused(log_dir: Path, option: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=rf"the option {next(iter(option))} is for records, .*leave out one"):
        raw(log_dir, **option)
    with pytest.raises(UsageError, match="is for records"):
        LogDirStream({"path": str(log_dir), "rawBatches": "true", **option})
    with pytest.raises(UsageError, match="say true or false"):
        LogDirTable({"path": str(log_dir), "rawBatches": "yes"})


def test_columns_of_the_reader(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column by itself; a large batch has an Arrow batch of its own."""
    path = str(min((log_dir / "t-0").glob("*.log")))
    [whole] = read_stored_batches(path)
    for name in STORED_COLUMNS:
        [alone] = read_stored_batches(path, columns=[name])
        assert alone.column(0).equals(whole.column(name))
    with pytest.raises(UsageError, match="there is no column 'offset'"):
        next(read_stored_batches(path, columns=["offset"]))
    monkeypatch.setattr(stored_batches, "_LARGE_BYTES", 10)
    first, second = read_stored_batches(path)
    assert [*first.to_pylist(), *second.to_pylist()] == whole.to_pylist()
    assert len(second) == 1


@pytest.mark.parametrize("seed", cases([*range(200)], 40))
def test_harmed_logs_have_the_same_records_either_way(seed: int, log_dir: Path) -> None:
    """Flips, cuts and zeros at random: the records of the batches are those that are read as
    records, and both tell of the same damage."""
    draw = random.Random(seed)
    for _ in range(draw.randint(1, 4)):
        file = draw.choice(sorted((log_dir / "t-0").glob("*.log")))
        data = bytearray(file.read_bytes())
        place = draw.randrange(len(data)) if data else 0
        harm = draw.choice(("flip", "cut", "zeros"))
        if harm == "cut":
            data = data[:place]
        else:
            end = min(place + (1 if harm == "flip" else draw.randint(1, 90)), len(data))
            data[place:end] = bytes(end - place) if harm == "zeros" else bytes([data[place] ^ 1 << draw.randrange(8)])
        file.write_bytes(data)
    options = {"mode": "PERMISSIVE", "includeControl": "true", "maxPartitionBytes": draw.choice(("300", "1m"))}
    records = rows_of(LogDirTable({"path": str(log_dir), **options}))
    stored = raw(log_dir, **options)
    found: list[tuple[int, bytes | None]] = []
    for row in stored:
        if row["_corrupt"] is None:
            batch, _ = decode_batch(row["batch"])
            found += [(record.offset, record.value) for record in batch.records()]
    assert found == [(row["offset"], row["value"]) for row in records if row["_corrupt"] is None]
    assert [row["_corrupt"] for row in stored if row["_corrupt"]] == [
        row["_corrupt"] for row in records if row["_corrupt"]
    ]


def test_damage_behind_the_offsets_is_not_met(log_dir: Path) -> None:
    """Neither behind endingOffsets, nor what is written after the DataFrame was made."""
    file = max((log_dir / "t-0").glob("*.log"))
    rows, good = raw(log_dir), file.read_bytes()
    ours = [row for row in rows if row["baseOffset"] >= int(file.stem)]
    assert len(ours) > 1
    end = ours[-1]["baseOffset"]
    made = LogDirTable({"path": str(log_dir), "rawBatches": "true"})
    file.write_bytes(good + good[:7] + b"\x99" + good[8 : ours[0]["sizeBytes"] - 4] + bytes(4096))
    assert rows_of(made) == rows
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert raw(log_dir, endingOffsets=f'{{"t": {{"0": {end}}}}}') == rows[:-1]
    stream = LogDirStream({"path": str(log_dir), "rawBatches": "true"})
    assert rows_between(stream, {"t": {"0": 0}}, {"t": {"0": end}}) == rows[:-1]


@pytest.mark.parametrize("base_offset", [1 << 56, 0])
def test_an_empty_batch_that_is_out_of_place(tmp_path: Path, base_offset: int) -> None:
    """It is damage here, where a row is a batch, and none for records."""
    one = record(0, 0, b"k", b"v")
    batches = [batch(one, 1, base_offset=offset) for offset in range(9)]
    batches[4] = batch(b"", 0, base_offset=4, last_delta=0)
    batches[4] = base_offset.to_bytes(8, "big") + batches[4][8:]
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(b"".join(batches))
    path = str(tmp_path)
    assert len(rows_of(LogDirTable({"path": path}))) == 8
    with pytest.raises(CorruptError, match="base_offset"):
        raw(path)
    told = raw(path, mode="PERMISSIVE")
    assert [row["baseOffset"] for row in told if row["_corrupt"] is None] == [0, 1, 2, 3, 5, 6, 7, 8]
    assert len(told) == 9
