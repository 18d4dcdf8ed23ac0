"""A batch whose base offset is wrong, which no checksum covers: `read` and `records` raise."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdex.errors import OffsetOrderError
from logdex.kafka.batch.record import Record
from logdex.kafka.log.log import Log
from logdex.kafka.segment.file_records import FileRecords
from tests.examples import cases

COUNT = 30
HARMED = 17


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "events-0"
    with Log.open(str(path)) as log:
        for number in range(COUNT):
            log.append(Record(value=b"%d" % number))
    return path


def flip(path: Path, bit: int) -> None:
    (file,) = path.glob("*.log")
    header = next(itertools.islice(FileRecords(file).headers(), HARMED, None))
    data = bytearray(file.read_bytes())
    data[header.position + bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)


def read_in_steps(log: Log, max_bytes: int) -> Iterator[int]:
    """The offsets of all records, read like a consumer."""
    offset = 0
    while offset < COUNT:
        records = log.read(offset, max_bytes)
        if not records:
            return
        yield from (record.offset for record in records)
        offset = records[-1].offset + 1


@pytest.mark.parametrize("bit", cases(range(64), 8))
def test_every_bit(path: Path, bit: int) -> None:
    flip(path, bit)
    with Log.open(str(path)) as log:
        assert log.log_end_offset == COUNT
        with pytest.raises(OffsetOrderError, match="contradicts its neighbours"):
            list(log.records())
        with pytest.raises(OffsetOrderError, match="contradicts its neighbours"):
            list(read_in_steps(log, 100_000))
