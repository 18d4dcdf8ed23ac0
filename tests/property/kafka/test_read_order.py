"""A batch whose base offset was changed, which no checksum covers: whatever reads a log reports it
where `verify` does, and reads every other record."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from logdex.errors import CorruptError, OffsetOrderError
from logdex.io.env import Env
from logdex.kafka.batch.record import Record
from logdex.kafka.columns.read_order import OffsetRange
from logdex.kafka.columns.record_columns import read_record_batches
from logdex.kafka.log.log import Log
from logdex.kafka.read.read_filter import ReadFilter
from logdex.kafka.read.record_scan import KafkaScan
from logdex.kafka.scan.scanner import BatchScanner
from logdex.kafka.snapshot.partition_snapshot import PartitionSnapshot
from logdex.kafka.verify import verify
from tests import remote
from tests.examples import some

WRONG = {"batch-offset", "segment-base-offset"}
FILTERS = (
    ReadFilter(control=True),
    ReadFilter(control=True, isolation="read_uncommitted"),
    ReadFilter(control=True, isolation="read_committed"),
)


def write(path: Path, chance: Random) -> None:
    with Log.open(str(path), segment_bytes=chance.choice((600, 3000, 1 << 20)), index_interval_bytes=200) as log:
        for _ in range(chance.randint(8, 40)):
            log.append([Record(None, bytes(chance.randrange(60)), each) for each in range(chance.randint(1, 4))])


def batches_of(path: Path) -> list[tuple[Path, int, int, int]]:
    """The .log, position, first and last offset of each batch."""
    found = []
    for file in sorted(path.glob("*.log")):
        for window in BatchScanner().scan_file(str(file)):
            columns = (window.columns.position, window.columns.base_offset, window.columns.last_offset)
            found += [(file, *place) for place in zip(*(column.tolist() for column in columns), strict=True)]
    return found


def places_of(problems: list[CorruptError]) -> list[tuple[str, int | None]]:
    assert all(isinstance(error, OffsetOrderError) for error in problems), problems
    return [(str(error.path), error.position) for error in problems]


@pytest.mark.parametrize("seed", some(range(40), 10))
def test_a_wrong_offset_is_told_where_verify_tells_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, path = Random(seed), tmp_path / "events-0"
    write(path, chance)
    sound = batches_of(path)
    chosen = chance.randrange(len(sound) - 1)  # nothing tells what the offset of the last batch must be
    file, position, first, last = sound[chosen]
    data = bytearray(file.read_bytes())
    at = chance.randrange(64)
    data[position + 7 - at // 8] ^= 1 << at % 8
    file.write_bytes(data)
    told = [(found.path, found.position) for found in verify(str(tmp_path)).findings if found.check in WRONG]
    others = [offset for offset in range(sound[-1][3] + 1) if not first <= offset <= last]
    with PartitionSnapshot(str(path)) as snapshot:
        for wanted in FILTERS:
            scan = KafkaScan([snapshot], wanted)
            offsets = [record.offset for record in scan]
            assert places_of(scan.problems) == told == [(str(file), position)], (wanted, at)
            assert offsets == others, wanted
            problems: list[CorruptError] = []
            for split in snapshot.plan_read(wanted, split_bytes=chance.choice((100, 500, 1 << 30))).splits:
                for part in split.to_batches(on_bad_batch=problems.append):
                    offsets += part.column("offset").to_pylist()
            assert places_of(problems) == told
            assert offsets == 2 * others
    remote.small_parts(monkeypatch)
    with remote.in_memory(path, "events-0") as url, PartitionSnapshot(url, env=Env()) as snapshot:
        scan = KafkaScan([snapshot], FILTERS[0])
        assert [record.offset for record in scan] == others
        assert len(scan.problems) == 1


def test_looking_ahead_keeps_what_is_not_decoded_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are no batch follow far behind: more is loaded to judge the last whole batch."""
    path = tmp_path / "events-0"
    with Log.open(path) as log:
        for number in range(40):
            log.append([Record(None, b"%d" % number * 1000, 0)])
    file = path / f"{0:020d}.log"
    torn = file.read_bytes() + bytes(80)
    file.write_bytes(torn)
    remote.small_parts(monkeypatch)
    with remote.in_memory(path, "events-0") as url, PartitionSnapshot(url, env=Env()) as snapshot:
        scan = KafkaScan([snapshot], FILTERS[0])
        assert [record.offset for record in scan] == list(range(40))
        assert scan.problems == []


@pytest.mark.parametrize("seed", some(range(40), 10))
def test_without_a_callback_it_is_raised_behind_the_records_before_it(seed: int, tmp_path: Path) -> None:
    chance, path = Random(seed), tmp_path / "events-0"
    with Log.open(str(path)) as log:
        for number in range(30):
            log.append([Record(None, b"%d" % number, 0)])
    file = path / f"{0:020d}.log"
    data, (_, position, first, _) = bytearray(file.read_bytes()), chance.choice(batches_of(path)[:-1])
    data[position : position + 8] = (first ^ 1 << chance.randrange(64)).to_bytes(8, "big")
    offsets: list[int] = []
    read = read_record_batches(bytes(data), offsets=OffsetRange(0, None), path="a.log")
    with pytest.raises(OffsetOrderError) as raised:
        offsets.extend(offset for part in read for offset in part.column("offset").to_pylist())
    assert offsets == list(range(first))
    assert raised.value.position == position
    assert raised.value.path == "a.log"


def test_a_log_with_another_name_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events-0"
    write(path, Random(1))
    file = path / f"{0:020d}.log"
    found = read_record_batches(str(file), offsets=OffsetRange(10_000, None))
    count = sum(part.num_rows for part in found)
    assert count == sum(part.num_rows for part in read_record_batches(str(file))) > 0


def test_batches_over_many_steps(tmp_path: Path) -> None:
    """Steps end after 4,096 batches: the last batch of a step is judged by the next step's."""
    path = tmp_path / "events-0"
    with Log.open(str(path)) as log:
        log.append([Record(None, b"value", 0)])
    one = (path / f"{0:020d}.log").read_bytes()
    offsets = np.arange(3 * 4096)
    for place in (4094, 4095, 4096, 4097, 8191, 8192):
        for wrong in (place + 5000, 3, 1 << 40):
            stated = offsets.tolist()
            stated[place] = wrong
            data = b"".join(offset.to_bytes(8, "big") + one[8:] for offset in stated)
            problems: list[CorruptError] = []
            read = read_record_batches(data, offsets=OffsetRange(0, None), on_bad_batch=problems.append)
            found = [offset for part in read for offset in part.column("offset").to_pylist()]
            assert [error.position for error in problems] == [place * len(one)]
            assert found == np.delete(offsets, place).tolist()
