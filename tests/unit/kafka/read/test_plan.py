"""Read plans: what they leave out, how they cut, that their splits are read by another process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdex.errors import CrcMismatchError, UnreadableError, UsageError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.files.file_names import META_PROPERTIES, offset_file_name
from logdex.kafka.key_index.build import build_key_index
from logdex.kafka.log.log import Log
from logdex.kafka.read.plan import ReadPlan
from logdex.kafka.read.prune import SegmentPart
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.splits import cuts as cuts_of_parts
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.snapshot.log_dir_snapshot import LogDirSnapshot
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.layout.kafka import OFFSET_INDEX_ENTRY
from tests.unit.kafka.verify.older_broker import OlderBroker, batch_at

START_MS = 1_700_000_000_000
SEGMENTS, BATCHES = 4, 25


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Segments of 25 batches of 4 records, a millisecond apart; each segment's records have a key
    of their own."""
    return fill(tmp_path / "events-0")


def fill(path: Path, unordered: bool = False) -> Path:
    with Log.open(str(path), index_interval_bytes=4000) as log:
        for segment in range(SEGMENTS):
            for _ in range(BATCHES):
                first = log.log_end_offset
                late = 1_000_000 if unordered and (segment, first % 100) == (1, 40) else 0
                log.append(
                    [Record(b"k%d" % segment, b"v" * 500, START_MS + first + number + late) for number in range(4)]
                )
            log.roll()
    return path


def offsets(plan: ReadPlan) -> list[int]:
    return [
        offset for split in plan.splits for batch in split.to_batches() for offset in batch.column("offset").to_pylist()
    ]


def planned(path: Path, split_bytes: int | None = None, **wanted: object) -> tuple[ReadPlan, list[int]]:
    with PartitionSnapshot(str(path)) as snapshot:
        plan = snapshot.plan_read(ReadFilter(**wanted), split_bytes=split_bytes)  # type: ignore[arg-type]
        return plan, offsets(plan)


def test_a_plan_shows_itself(path: Path) -> None:
    plan, found = planned(path, offset=150, end_offset=160)
    size = plan.size_bytes
    assert found == list(range(150, 160))
    assert size < plan.total_bytes / 20
    assert repr(plan) == (
        f"ReadPlan(1 splits of {size} bytes; pruned: 3 of 4 files, {plan.total_bytes - size} of {plan.total_bytes} "
        "bytes)"
    )
    [split] = plan.splits
    assert repr(split) == f"ReadSplit({split.path!r}, bytes {split.begin} to {split.end})"


def test_without_a_filter_nothing_is_left_out(path: Path) -> None:
    plan, found = planned(path)
    assert found == list(range(400))
    assert (len(plan.splits), plan.pruned_files, plan.pruned_bytes) == (4, 0, 0)


def test_times_leave_out_what_is_older(path: Path) -> None:
    plan, found = planned(path, begin_ms=START_MS + 250, end_ms=START_MS + 260)
    assert found == list(range(250, 261))
    assert plan.pruned_files == 2
    assert [split.begin > 0 for split in plan.splits] == [True, False]


def test_times_that_do_not_rise(tmp_path: Path) -> None:
    """A late record in the second segment: the segment stays in, those before and behind it do
    not."""
    path = fill(tmp_path / "events-0", unordered=True)
    plan, found = planned(path, begin_ms=START_MS + 500_000)
    assert found == list(range(140, 144))
    assert [split.base_offset for split in plan.splits] == [100]


@pytest.mark.parametrize("harm", ["missing", "of another segment", "cut"])
def test_a_time_index_that_does_not_tell_of_all(tmp_path: Path, harm: str) -> None:
    path = fill(tmp_path / "events-0", unordered=True)
    index, other = (path / offset_file_name(base, ".timeindex") for base in (100, 0))
    if harm == "missing":
        index.unlink()
    else:
        index.write_bytes(other.read_bytes() if harm == "of another segment" else index.read_bytes()[:24])
    assert planned(path, begin_ms=START_MS + 500_000)[1] == list(range(140, 144))


def test_what_was_appended_since_the_last_time_entry_is_found(path: Path) -> None:
    with Log.open(str(path)) as log:
        log.append(Record(b"k", b"v", START_MS + 10_000))
        assert planned(path, begin_ms=START_MS + 5_000)[1] == [400]


def test_a_key_leaves_out_segments_whose_index_has_it_not(path: Path) -> None:
    assert planned(path, key=b"k2")[0].pruned_files == 0
    for log in path.glob("*.log"):
        log.with_suffix(".keyindex").write_bytes(build_key_index(str(log)).tobytes())
    plan, found = planned(path, key=b"k2")
    assert found == list(range(200, 300))
    assert [split.base_offset for split in plan.splits] == [200]
    with Log.open(str(path)) as more:  # which the last segment's index does not know of
        more.append(Record(b"k2", b"v", START_MS))
    assert planned(path, key=b"k2")[1] == [*range(200, 300), 400]


def test_a_key_leaves_out_batches_by_the_index(tmp_path: Path) -> None:
    """Those with other keys, before, between and behind; and no record is read twice where the
    parts meet in one batch."""
    path = tmp_path / "events-0"
    with Log.open(str(path), index_interval_bytes=4000) as log:
        for first in range(0, 400, 4):
            keys = [b"twice" if number in (40, 41, 42, 300) else b"hot" for number in range(first, first + 4)]
            log.append([Record(key, b"v" * 500, START_MS + first) for key in keys])
        log.roll()
    for file in path.glob("*.log"):
        file.with_suffix(".keyindex").write_bytes(build_key_index(str(file)).tobytes())
    plan, found = planned(path, key=b"twice")
    assert found == [40, 41, 42, 300]
    assert len(plan.splits) == 2
    batches = [planned(path, offset=at, end_offset=at + 1)[0].size_bytes for at in (40, 300)]
    assert plan.size_bytes == sum(batches) < plan.total_bytes / 20
    assert planned(path, key=b"twice", offset=42, end_offset=300)[1] == [42]
    assert planned(path, key=b"twice", begin_ms=START_MS + 41)[1] == [300]
    plan, found = planned(path, key=b"hot")
    assert (len(found), len(plan.splits)) == (396, 1)
    assert planned(path, key=b"twice", begin_ms=START_MS + 301)[0].splits == ()
    (path / offset_file_name(0, ".index")).write_bytes(b"\xff" * 64)
    assert planned(path, key=b"twice")[1] == [40, 41, 42, 300]


def test_a_filter_reads_fewer_bytes(path: Path) -> None:
    """Headers and indexes are read, and of the logs what the splits have."""
    read = {}
    for name, wanted in (("all", ReadFilter()), ("some", ReadFilter(offset=310, end_offset=320))):
        env = Env()
        with PartitionSnapshot(str(path), env=env) as snapshot:
            scan = snapshot.scan(offset=wanted.offset, end_offset=wanted.end_offset)
            rows = scan.to_arrow().read_all().num_rows
            read[name] = (rows, env.counters.read_bytes + env.counters.mapped_bytes)
    assert [rows for rows, _ in read.values()] == [400, 10]
    assert read["some"][1] < read["all"][1] / 2


# -- cuts ----------------------------------------------------------------------------------------
def cuts(path: Path, split_bytes: int = 8000) -> list[tuple[int, int]]:
    plan, found = planned(path, split_bytes)
    assert found == list(range(400))
    assert plan.size_bytes == plan.total_bytes
    return [(split.base_offset, split.begin) for split in plan.splits]


def test_splits_begin_at_batches_that_the_index_names(path: Path) -> None:
    found = cuts(path)
    assert len(found) > 12
    with PartitionSnapshot(str(path)) as snapshot:
        for base, begin in found:
            index = snapshot.segment(base).offset_index
            assert begin in (0, *(index.entry(slot).position for slot in range(index.entries)))


@pytest.mark.parametrize("harm", ["missing", "falls", "within a batch", "of another segment"])
def test_an_index_that_is_not_borne_out_is_done_without(path: Path, harm: str) -> None:
    index = path / offset_file_name(100, ".index")
    data = bytearray(index.read_bytes())
    if harm == "missing":
        index.unlink()
    elif harm == "falls":
        index.write_bytes(data[8:16] + data[:8] + data[16:])
    elif harm == "within a batch":
        for slot in range(0, len(data), 8):
            data[slot + 7] ^= 1
        index.write_bytes(data)
    else:
        with Log.open(str(path.parent / "other-0"), index_interval_bytes=1) as log:
            for number in range(20):
                log.append(Record(value=b"x" * 90 * number))
        index.write_bytes((path.parent / "other-0" / offset_file_name(0, ".index")).read_bytes())
    assert len([begin for base, begin in cuts(path) if base == 100]) > 2


def test_where_headers_do_not_lead_on_nothing_is_cut(path: Path) -> None:
    file = path / offset_file_name(100, ".log")
    (path / offset_file_name(100, ".index")).unlink()
    data = bytearray(file.read_bytes())
    data[len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    file.write_bytes(data)
    with PartitionSnapshot(str(path)) as snapshot:
        plan = snapshot.plan_read(ReadFilter(), split_bytes=8000)
    assert [split.begin for split in plan.splits if split.base_offset == 100] == [0]


def test_cuts_of_another_size(path: Path) -> None:
    assert len(cuts(path, 1)) == sum(1 for _ in cuts(path, 1)) > len(cuts(path, 24000)) > SEGMENTS
    assert len(cuts(path, 1 << 40)) == SEGMENTS
    with PartitionSnapshot(str(path)) as snapshot, pytest.raises(UsageError, match="split_bytes is 0"):
        snapshot.plan_read(ReadFilter(), split_bytes=0)


def test_an_index_of_appends_tells_where_to_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an older broker writes it; one with an offset that is the last of no batch is not used."""
    broker = OlderBroker(tmp_path / "events-0", 150)
    for first in range(0, 100, 5):
        broker.append(b"".join(batch_at(4 * n, *[n] * 4) for n in range(first, first + 5)))
    broker.close()
    index = broker.path("index")
    positions = [position for _, position in OFFSET_INDEX_ENTRY.struct.iter_unpack(index.read_bytes())]
    assert len(positions) == 19
    walked: list[SegmentPart] = []
    walk = cuts_of_parts._walked

    def noted(part: SegmentPart) -> Any:
        walked.append(part)
        return walk(part)

    monkeypatch.setattr(cuts_of_parts, "_walked", noted)
    assert cuts(tmp_path / "events-0", 1) == [(0, begin) for begin in [0, *positions]]
    assert not walked
    index.write_bytes(index.read_bytes()[:3] + b"\x26" + index.read_bytes()[4:])  # 38, within a batch
    assert len(cuts(tmp_path / "events-0", 1)) == 100
    assert walked


def test_each_entry_of_an_index_is_checked_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    check = cuts_of_parts._is_borne_out

    def counted(segment: Any, offsets: Any, positions: Any, place: int) -> bool:
        asked.append(int(positions[place]))
        return check(segment, offsets, positions, place)

    monkeypatch.setattr(cuts_of_parts, "_is_borne_out", counted)
    with PartitionSnapshot(str(path)) as snapshot:
        entries = sum(segment.offset_index.entries for segment in snapshot.segments)
        snapshot.plan_read(ReadFilter(), split_bytes=1)
    assert 0 < len(asked) <= entries


# -- splits --------------------------------------------------------------------------------------
def test_another_process_reads_a_split(path: Path, tmp_path: Path) -> None:
    with PartitionSnapshot(str(path)) as snapshot:
        plan = snapshot.plan_read(ReadFilter(offset=10, end_offset=350), columns=["topic", "offset"], split_bytes=12000)
    sent = tmp_path / "splits"
    sent.write_bytes(pickle.dumps(plan.splits))
    assert len(sent.read_bytes()) < 400 * len(plan.splits)
    program = """
import pickle, sys
splits = pickle.loads(open(sys.argv[1], "rb").read())
for split in splits:
    for batch in split.to_batches():
        assert batch.schema == split.schema
        print(*batch.column("offset").to_pylist(), set(batch.column("topic").to_pylist()))
"""
    told = subprocess.run([sys.executable, "-c", program, sent], capture_output=True, text=True, check=True).stdout
    assert [int(word) for word in told.split() if word.isdigit()] == list(range(10, 350))
    assert told.count("{'events'}") == len(told.splitlines()) >= len(plan.splits)


def test_a_bad_batch_is_told(path: Path) -> None:
    file = path / offset_file_name(0, ".log")
    data = bytearray(file.read_bytes())
    data[30] ^= 1
    file.write_bytes(data)
    with PartitionSnapshot(str(path)) as snapshot:
        plan = snapshot.plan_read(ReadFilter(), columns=["offset"])
    with pytest.raises(CrcMismatchError):
        offsets(plan)
    errors: list[Exception] = []
    read = plan.splits[0].to_batches(on_bad_batch=errors.append)
    assert next(read).column("offset")[0].as_py() == 4
    assert len(errors) == 1


def test_a_log_that_ends_before_its_plan_does_is_damaged(path: Path) -> None:
    """Truncated between two batches: what is left is whole, and yet not what was planned."""
    file = path / offset_file_name(0, ".log")
    with PartitionSnapshot(str(path)) as snapshot:
        split = snapshot.plan_read(ReadFilter(), columns=["offset"]).splits[0]
    third = int(next(BatchScanner().scan_file(str(file))).columns.position[2])
    os.truncate(file, third)

    def ended() -> Iterator[Any]:
        yield (yield from split.to_batches())

    *_, end = ended()
    damage = split.damage_at(end, split.end)
    assert damage is not None
    assert (damage.path, damage.position, damage.end_position) == (split.path, third, split.end)
    assert split.damage_at(end, third) is None


def test_an_unknown_column_is_refused(path: Path) -> None:
    with PartitionSnapshot(str(path)) as snapshot, pytest.raises(UsageError, match="no column 'body'"):
        snapshot.plan_read(ReadFilter(), columns=["body"])


def test_a_log_directory(tmp_path: Path) -> None:
    for name in ("a-0", "a-1", "b-0"):
        with Log.open(str(tmp_path / name)) as log:
            log.append(Record(value=name.encode()))
    (tmp_path / META_PROPERTIES).write_text("version=1\ncluster.id=x\nnode.id=1\n")
    with LogDirSnapshot(str(tmp_path)) as snapshot:
        plan = snapshot.plan_read(ReadFilter(), topic="a", columns=["value", "partition"])
        assert [row for split in plan.splits for batch in split.to_batches() for row in batch.to_pylist()] == [
            {"value": b"a-0", "partition": 0},
            {"value": b"a-1", "partition": 1},
        ]
        assert plan.schema.names == ["value", "partition"]
        assert len(snapshot.plan_read(ReadFilter(), partition=0).splits) == 2


def test_a_log_that_is_cut_while_it_is_planned_is_a_typed_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = path / offset_file_name(0, ".log")
    cut = cuts_of_parts.cut

    def cutting(part: SegmentPart, split_bytes: int) -> list[int]:
        found = cut(part, split_bytes)
        os.truncate(log, found[1])
        part.segment.log.refresh()
        return found

    monkeypatch.setattr("logdex.kafka.read.plan.cut", cutting)
    with pytest.raises(UnreadableError, match="truncated"):
        planned(path, 5000)
