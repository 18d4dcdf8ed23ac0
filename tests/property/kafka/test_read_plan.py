"""The rows of a plan's splits, one after the other, are those of the log that pass the filter: for
any log, filter and size of splits, and whatever has become of the indexes."""

from __future__ import annotations

import pickle
import shutil
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdex.kafka.batch.record import Compression, Record
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.read.plan import ReadPlan
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.read.splits.split import SCAN_COLUMNS
from logdex.kafka.segment.log_segment import LogSegment
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from tests.examples import examples

Row = dict[str, Any]
START_MS = 1_700_000_000_000
KEYS = [None, b"", b"a", b"b", b"c"]


def write(path: Path, chance: Random, batches: int) -> None:
    """A log of several segments, its timestamps mostly rising, with transactions some of which stay
    open."""
    with Log.open(str(path), segment_bytes=chance.choice((500, 2000, 9000)), index_interval_bytes=100) as log:
        time_ms = START_MS
        producers: set[int] = set()
        for _ in range(batches):
            time_ms += chance.choice((0, 1, 10, 10, 10, -15, 500 if chance.random() < 0.05 else 3))
            records = [
                Record(chance.choice(KEYS), chance.randbytes(chance.choice((0, 9, 80))), time_ms + number)
                for number in range(chance.randint(1, 4))
            ]
            producer = chance.choice((None, None, 1, 2))
            if producer in producers and chance.random() < 0.4:
                log.append_end_marker(producer, 0, commit=chance.random() < 0.5)
                producers.discard(producer)
            options: dict[str, Any] = {"compression": chance.choice(list(Compression)[:4])}
            if producer is not None:
                options |= {"producer_id": producer, "producer_epoch": 0, "transactional": True}
                producers.add(producer)
            log.append(records, **options)
        if chance.random() < 0.3:
            log.delete_records(chance.randint(0, log.log_end_offset))


def write_partitions(root: Path, chance: Random) -> None:
    """A log directory of three partitions."""
    (root / "meta.properties").write_text("version=1\n")
    for name in ("events-0", "events-1", "orders-0"):
        write(root / name, chance, chance.randint(0, 40))


def random_filter(chance: Random, log_end: int) -> ReadFilter:
    def maybe(value: Any) -> Any:
        return value if chance.random() < 0.4 else None

    return ReadFilter(
        offset=maybe(chance.randint(0, log_end + 2)),
        end_offset=maybe(chance.randint(0, log_end + 2)),
        begin_ms=maybe(START_MS + chance.randint(-10, 900)),
        end_ms=maybe(START_MS + chance.randint(-10, 900)),
        key=maybe(chance.choice(KEYS[1:])),
        control=chance.random() < 0.3,
        isolation=chance.choice((None, None, "read_uncommitted", "read_committed")),
    )


def all_rows(path: Path, bad: list[Any]) -> list[Row]:
    """Every row of the files, each segment read as a whole."""
    found: list[Row] = []
    for file in sorted(path.glob("*.log")):
        for batch in read_record_batches(str(file), skip_control=False, on_bad_batch=bad.append):
            found += batch.to_pylist()
    return found


def committed(rows: list[Row]) -> Iterator[Row]:
    """Without data whose producer's next marker aborts."""
    for place, row in enumerate(rows):
        if row["is_transactional"] and not row["is_control"]:
            later = (each for each in rows[place:] if each["is_control"] and each["producer_id"] == row["producer_id"])
            marker = next(later, None)
            if marker is not None and struct.unpack(">hh", marker["key"])[1] == 0:
                continue
        yield row


def model(rows: list[Row], wanted: ReadFilter, snapshot: PartitionSnapshot) -> list[Row]:
    if wanted.isolation is not None:
        rows = [row for row in rows if row["offset"] >= snapshot.log_start_offset]
    if wanted.isolation == "read_committed":
        rows = [row for row in committed(rows) if row["offset"] < snapshot.last_stable_offset]
    checks = {
        "offset": (wanted.offset, lambda row: row["offset"] >= wanted.offset),
        "end_offset": (wanted.end_offset, lambda row: row["offset"] < wanted.end_offset),
        "begin": (wanted.begin_ms, lambda row: row["timestamp_ms"] >= wanted.begin_ms),
        "end": (wanted.end_ms, lambda row: row["timestamp_ms"] <= wanted.end_ms),
        "key": (wanted.key, lambda row: row["key"] == wanted.key),
    }
    for limit, passes in checks.values():
        if limit is not None:
            rows = [row for row in rows if passes(row)]
    return [row for row in rows if wanted.control or not row["is_control"]]


def rows_of(batches: Iterator[pa.RecordBatch]) -> list[Row]:
    return [row for batch in batches for row in batch.to_pylist()]


def of_plan(plan: ReadPlan) -> list[Row]:
    bad: list[Any] = []
    splits = pickle.loads(pickle.dumps(plan.splits))
    return [row for split in splits for row in rows_of(split.to_batches(on_bad_batch=bad.append))]


def placed(rows: list[Row]) -> list[Row]:
    return [{"topic": "events", "partition": 0, **row} for row in rows]


def check_plan(plan: ReadPlan, snapshot: PartitionSnapshot) -> None:
    """What a plan says of itself, and that its splits lie one behind the other, each within its
    file. Only a key leaves out bytes between them."""
    assert plan.total_bytes == plan.size_bytes + plan.pruned_bytes == snapshot.size_bytes
    assert plan.pruned_files <= plan.total_files
    assert repr(plan).startswith(f"ReadPlan({len(plan.splits)} splits of {plan.size_bytes} bytes; pruned: ")
    sizes = {segment.log.path: segment.size_bytes for segment in snapshot.segments}
    for split in plan.splits:
        assert 0 <= split.begin < split.end <= sizes[split.path]
    keys = [(split.base_offset, split.begin, split.end) for split in plan.splits]
    assert keys == sorted(keys)
    for one, other in pairwise(keys):
        assert one[0] < other[0] or one[2] == other[1] or (plan.filter.key is not None and one[2] < other[1])


def harm_index(path: Path, chance: Random) -> None:
    """Removes, cuts, flips or exchanges indexes."""
    files = [*path.glob("*.index"), *path.glob("*.timeindex"), *path.glob("*.keyindex")]
    for file in chance.sample(files, min(len(files), chance.randint(1, 4))):
        data = bytearray(file.read_bytes())
        how = chance.choice(("remove", "cut", "flip", "other"))
        if how == "remove":
            file.unlink()
        elif how == "cut":
            file.write_bytes(data[: chance.randint(0, len(data))])
        elif how == "flip" and data:
            for _ in range(chance.randint(1, 3)):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            file.write_bytes(data)
        else:
            shutil.copyfile(chance.choice(sorted(path.glob("*" + file.suffix))), file.with_suffix(".tmp"))
            file.with_suffix(".tmp").rename(file)


def harm_log(path: Path, chance: Random) -> None:
    """Flips bits of a .log, but for base offsets, which no checksum covers: they are what is
    believed of a record."""
    file = chance.choice(sorted(path.glob("*.log")))
    data = bytearray(file.read_bytes())
    with LogSegment(str(path), int(file.stem)) as segment:
        believed = {header.position + byte for header in segment.log.headers() for byte in range(8)}
    for _ in range(chance.randint(1, 2)):
        place = chance.randrange(max(len(data), 1))
        if data and place not in believed:
            data[place] ^= 1 << chance.randrange(8)
    file.write_bytes(data)


@pytest.mark.parametrize("harm", ["nothing", "indexes"])
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_splits_give_the_rows_of_the_filter(harm: str, seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events-0"
        write(path, chance, chance.choice((1, 20, 60)))
        if chance.random() < 0.5:
            for log in path.glob("*.log"):
                log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
        if harm == "indexes":
            harm_index(path, chance)
        with PartitionSnapshot(str(path)) as snapshot:
            rows = all_rows(path, [])
            for _ in range(6):
                wanted = random_filter(chance, snapshot.log_end_offset)
                split_bytes = chance.choice((None, 1, 100, 700, 5000))
                plan = snapshot.plan_read(wanted, split_bytes=split_bytes)
                check_plan(plan, snapshot)
                expected = model(rows, wanted, snapshot)
                assert of_plan(plan) == placed(expected), (wanted, split_bytes)
                assert rows_of(iter(KafkaScan([snapshot], wanted).arrow_reader())) == placed(expected)
                names = chance.sample(SCAN_COLUMNS, 3)
                few = snapshot.plan_read(wanted, columns=names, split_bytes=split_bytes)
                assert of_plan(few) == [{name: row[name] for name in names} for row in placed(expected)]


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_splits_of_a_damaged_log_give_the_rows_of_a_scan(seed: int) -> None:
    chance = Random(seed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "events-0"
        write(path, chance, chance.choice((20, 60)))
        harm_log(path, chance)
        with PartitionSnapshot(str(path)) as snapshot:
            for _ in range(6):
                wanted = random_filter(chance, snapshot.log_end_offset)
                scanned = rows_of(iter(KafkaScan([snapshot], wanted).arrow_reader()))
                plan = snapshot.plan_read(wanted, split_bytes=chance.choice((1, 100, 700, 5000)))
                assert of_plan(plan) == scanned, (wanted, seed)
                if wanted.isolation != "read_committed":
                    assert scanned == placed(model(all_rows(path, []), wanted, snapshot)), (wanted, seed)
